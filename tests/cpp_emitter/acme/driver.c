/* The driver of a made-up device. Its memory is the host's, and it works lazily: what a stream
 * is given runs when the host waits for it, and the stream that was made last runs first, as
 * far as events allow. So a wait that is missing gives wrong results. Calls are logged. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN, RECORD, WAIT };
typedef struct Work {
  int kind;
  void (*run)(void*);
  void* state;
  struct Event* event;
  int version;
  struct Work* next;
} Work;
typedef struct Stream {
  int number;
  Work *first, *last;
} Stream;
typedef struct Event {
  int number, recorded, done;
} Event;

static Stream streams[16] = {{0, NULL, NULL}};
static int stream_count = 1, event_count = 0, failing = 0;
static char text[1 << 16];

static void note(const char* format, ...) {
  size_t used = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + used, sizeof text - used, format, arguments);
  va_end(arguments);
}

const char* acme_take_log(void) {
  static char taken[sizeof text];
  strcpy(taken, text);
  text[0] = 0;
  return taken;
}
void acme_fail_next(void) { failing = 1; }

void* acme_allocate(size_t bytes) {
  if (failing) return failing = 0, NULL;
  note("allocate %zu\n", bytes);
  void* memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  memset(memory, 0xff, bytes);
  return memory;
}
void acme_free(void* memory) {
  if (memory) note("free\n");
  free(memory);
}
void* acme_stream(void) {
  Stream* made = &streams[stream_count];
  made->number = stream_count++;
  return made;
}
void* acme_stream_0(void) { return &streams[0]; }
void* acme_event(void) {
  Event* made = calloc(1, sizeof(Event));
  made->number = event_count++;
  return made;
}

static void give(Stream* stream, int kind, void (*run)(void*), void* state, Event* event) {
  Work* work = malloc(sizeof(Work));
  *work = (Work){kind, run, state, event, event ? event->recorded : 0, NULL};
  if (stream->last) stream->last->next = work;
  else stream->first = work;
  stream->last = work;
}
void acme_launch(void* stream, void (*run)(void*), void* state, const char* name) {
  note("%s on %d\n", name, ((Stream*)stream)->number);
  give(stream, RUN, run, state, NULL);
}
void acme_record(void* event, void* stream) {
  ++((Event*)event)->recorded;
  note("record %d on %d\n", ((Event*)event)->number, ((Stream*)stream)->number);
  give(stream, RECORD, NULL, NULL, event);
}
void acme_wait(void* stream, void* event) {
  note("%d waits for %d\n", ((Stream*)stream)->number, ((Event*)event)->number);
  give(stream, WAIT, NULL, NULL, event);
}

static int step(Stream* stream) {
  Work* work = stream->first;
  if (!work || (work->kind == WAIT && work->event->done < work->version)) return 0;
  if (work->kind == RUN) work->run(work->state);
  if (work->kind == RECORD) work->event->done = work->version;
  stream->first = work->next;
  if (!stream->first) stream->last = NULL;
  free(work);
  return 1;
}
void acme_synchronize(void) {
  note("synchronize\n");
  for (int i = stream_count - 1; i >= 0; --i)
    if (step(&streams[i])) i = stream_count;
}
