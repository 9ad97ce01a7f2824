// Where the library is that this code is linked into.
#include "own_folder.h"

#include <dlfcn.h>
#include <stdlib.h>

namespace wrapperir {
namespace {

std::string find_folder() {
  Dl_info found;
  std::string path = ".";
  if (dladdr(reinterpret_cast<void*>(&find_folder), &found) && found.dli_fname) {
    path = found.dli_fname;
    size_t slash = path.rfind('/');
    path = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  }
  // Of the folder alone: the file may be a link, and what lies beside it, too.
  char* whole = realpath(path.c_str(), nullptr);
  if (whole) path = whole;
  free(whole);
  return path;
}

const std::string folder = find_folder();

}  // namespace

const std::string& own_folder() { return folder; }

}  // namespace wrapperir
