// An open program: its constants, and the frames that calls run in.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "description.h"

namespace wrapperir {

// The memory of a call: the arena, and the tensors in it.
struct Frame {
  char* arena = nullptr;
  std::vector<AtenTensorHandle> fixed;
  std::vector<int64_t> recent;
  DeviceFrame devices;
};

// A list of sizes or strides as messages show it.
inline std::string spelled(const int64_t* numbers, int64_t count) {
  std::string text = "[";
  for (int64_t i = 0; i < count; ++i)
    text += (i ? ", " : "") + (numbers[i] == any_number ? "?" : std::to_string(numbers[i]));
  return text + "]";
}

// Check a tensor; `what` and its `name` begin the message, such as `%` and `w`.
void check_tensor(
    AtenTensorHandle tensor, const TensorFact& type, const char* what, const char* name,
    bool may_be_on_cpu = false);
// Fail with what an input needs.
[[noreturn]] void refuse_input(const InputFact& fact, const std::string& needed);
// Check an input. A number becomes one of the declared kind; a float is never an int or a bool.
void check_input(wrapperir_value& value, const InputFact& fact);

// This thread's last failure; it stays until the next.
const char* error_message();
// Set the message of a failure that fail() did not throw.
void set_error_message(const char* message);
// The name of devices of type PrivateUse1; only programs that use them have this function.
__attribute__((weak)) const char* private_device_name();

// Run `work`; return 0, or 1 if it threw, and set error_message().
template <typename Work>
int guarded(Work work) {
  try {
    work();
    return 0;
  } catch (const Failure&) {  // its message is kept
  } catch (const std::bad_alloc&) {
    set_error_message("there is no memory left");
  } catch (const std::exception& error) {
    set_error_message(error.what());
  } catch (...) {
    set_error_message("a kernel or an operator threw something that is not an exception");
  }
  return 1;
}

// The absolute folder of this library and its files. It is found when the library is loaded,
// before the process can change its working directory.
const std::string& own_folder();

// Do work in a new thread, and throw what it throws. Tensors that it makes do not belong to the
// caller's inference mode, so any call may write to them.
void in_new_thread(const std::function<void()>& work);

}  // namespace wrapperir

// All functions throw Failure. Several threads may run one program at once: each call takes
// a frame that is free, or makes one. As many are kept as there are processors, or 8.
struct wrapperir_program {
  // Takes the handles of constants, in the program's order.
  wrapperir_program(
      const wrapperir::Description& description, std::vector<AtenTensorHandle> constants);
  ~wrapperir_program();
  wrapperir_program(const wrapperir_program&) = delete;
  wrapperir_program& operator=(const wrapperir_program&) = delete;

  // Takes the input tensors, also where it throws; then no output is set.
  void run(
      wrapperir_value* inputs, int64_t input_count, wrapperir_value* outputs,
      int64_t output_count);

  // Drop what graph regions have recorded; later calls record it again.
  void drop_recordings();

  const wrapperir::Description& description;

 private:
  wrapperir::Frame* take_frame();
  void give_back(wrapperir::Frame* frame);
  wrapperir::Frame* make_frame();
  void make_tensors(wrapperir::Frame& frame);

  std::vector<AtenTensorHandle> constants_;
  std::vector<char*> constant_data_;
  std::vector<wrapperir::DeviceFrame> regions_;
  std::atomic<wrapperir::Frame*> last_{nullptr};  // spares most calls the lock
  std::mutex mutex_;
  std::vector<wrapperir::Frame*> free_;
};
