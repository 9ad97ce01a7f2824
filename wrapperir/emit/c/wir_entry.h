/* The functions of a library that load_program.py calls; the last header of a program. */
#ifndef WIR_ENTRY_H
#define WIR_ENTRY_H

typedef struct {
  wir_driver driver;
  wir_memory *kept[WIR_KEPT + 1];
  pthread_mutex_t lock;
} wir_state;

static inline wir_run wir_begin(wir_state *s, char *message) {
  wir_run r;
  memset(&r, 0, sizeof r);
  r.driver = &s->driver, r.kept = s->kept, r.message = message;
  return r;
}

#ifdef __cplusplus
extern "C" {
#endif

void wir_program_close(void *state) {
  wir_state *s = (wir_state *)state;
  for (int i = 0; i < WIR_KEPT; i++)
    if (s->kept[i] != NULL) wir_destroy(s->kept[i]);
  wir_driver_close(&s->driver);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

/* Return the state of a loaded program; NULL with a message. */
void *wir_program_open(char *message) {
  wir_state *s = (wir_state *)calloc(1, sizeof *s);
  wir_run r;
  if (s == NULL) return NULL;
  r = wir_begin(s, message);
  pthread_mutex_init(&s->lock, NULL);
  if (wir_driver_open(&r)) return s;
  wir_program_close(s);
  return NULL;
}

/* Run the program; return whether it failed, with a message.  One call runs at a time. */
int wir_program_run(void *state, const wir_value *inputs, wir_value *outputs, char *message) {
  wir_state *s = (wir_state *)state;
  wir_run r = wir_begin(s, message);
  pthread_mutex_lock(&s->lock);
  wir_program(&r, inputs, outputs);
  wir_driver_end(&r);
  for (wir_memory *m = r.memories, *next; m != NULL; m = next) {
    next = m->next;
    if (r.fault != NULL || !m->is_given) wir_destroy(m);
  }
  pthread_mutex_unlock(&s->lock);
  if (r.fault != NULL && r.fault != message)
    snprintf(message, WIR_MESSAGE, "%s", r.fault);
  return r.fault != NULL;
}

/* Release the memory of outputs. */
void wir_program_release(void *memory) { wir_destroy((wir_memory *)memory); }

/* Return the bytes of the driver's memory that the library holds. */
int64_t wir_program_live(void) { return wir_count(0); }
/* Return the most that it has held since this was asked last. */
int64_t wir_program_peak(void) { return wir_take_peak(); }

#ifdef __cplusplus
}
#endif

#endif
