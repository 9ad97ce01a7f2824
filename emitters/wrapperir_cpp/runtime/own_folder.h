// Where the library is that this code is linked into.
#pragma once

#include <string>

namespace wrapperir {

// Its folder, absolute: what belongs to the library lies there. It is found when the library
// is loaded, before the process can change its working directory.
const std::string& own_folder();

}  // namespace wrapperir
