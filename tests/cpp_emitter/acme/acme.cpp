// The made-up device as a table of functions.
#include "acme.h"

extern "C" {
void* acme_allocate(size_t bytes);
void acme_free(void* memory);
void* acme_stream(void);
void* acme_stream_0(void);
void* acme_event(void);
void acme_record(void* event, void* stream);
void acme_wait(void* stream, void* event);
void acme_synchronize(void);
}

namespace wrapperir {

const DeviceFunctions acme_functions = {
    [](int32_t index, int line) -> void* {  // enter
      if (index) fail(line, "acme: there is no device %d", index);
      return nullptr;
    },
    [](void*) {},  // leave
    [](int32_t, int) { return acme_stream_0(); },
    [](void*, int32_t, int) -> void* { return nullptr; },  // enter_stream
    [](void*) {},                                           // leave_stream
    [](uint64_t bytes, int line) {
      void* memory = acme_allocate(bytes);
      if (!memory) fail(line, "acme: no memory for %lld bytes", static_cast<long long>(bytes));
      return memory;
    },
    acme_free,
    [](void* memory, uint64_t bytes, void* stream, int) {
      auto zero = [](void* to, uint64_t count) { memset(to, 0, count); };
      acme_run(stream, "zero", zero, memory, bytes);
    },
    [](void* to, const void* from, uint64_t bytes, void* stream, int) {
      acme_copy(stream, static_cast<char*>(to), static_cast<const char*>(from), bytes);
    },
    [](int) { return acme_stream(); },
    [](void*) {},  // delete_stream
    [](void*, int) { acme_synchronize(); },
    [](bool, int) { return acme_event(); },
    [](void*) {},  // delete_event
    [](void* event, void* stream, int) { acme_record(event, stream); },
    [](void* stream, void* event, int) { acme_wait(stream, event); },
    [](void*) { acme_synchronize(); },  // wait_on_host
    nullptr,                            // microseconds
    nullptr,                            // is_captured
};

}  // namespace wrapperir
