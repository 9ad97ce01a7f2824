// The boundary to C: no exception passes it.
#pragma once

#include <exception>
#include <new>

#include "program.h"

namespace wrapperir {

// Run `work`; return 0, or 1 where it threw, and then error_message() says what.
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
    set_error_message("a kernel or an operator threw what is no exception");
  }
  return 1;
}

}  // namespace wrapperir
