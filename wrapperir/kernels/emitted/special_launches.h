// Launches of which the driver has to be told more than their grid.
#pragma once

#include "driver_functions.h"

namespace wrapperir {

struct LaunchKind {
  unsigned cluster = 1;  // programs that share a cluster
  bool is_cooperative = false;
  bool is_dependent = false;  // may begin before the launch before it ends

  bool is_plain() const { return cluster == 1 && !is_cooperative && !is_dependent; }
};

// Launch with attributes, by a slower function of the driver, which must have it.
inline CUresult launch_with_attributes(
    const Driver& driver, const LaunchKind& kind, CUfunction function, const unsigned* grid,
    unsigned threads, unsigned shared_bytes, CUstream stream, void** parameters) {
  LaunchAttribute attributes[4] = {};
  unsigned count = 0;
  if (kind.is_dependent) {
    attributes[count].id = LaunchAttribute::dependent;
    attributes[count++].value = 1;
  }
  if (kind.is_cooperative) {
    attributes[count].id = LaunchAttribute::cooperative;
    attributes[count++].value = 1;
  }
  if (kind.cluster > 1) {
    attributes[count].id = LaunchAttribute::cluster;
    attributes[count].extents[0] = kind.cluster;
    attributes[count].extents[1] = attributes[count].extents[2] = 1;
    ++count;
    attributes[count].id = LaunchAttribute::cluster_policy;
    attributes[count++].value = 1;  // spread
  }
  LaunchConfig config = {
      {grid[0], grid[1], grid[2]}, {threads, 1, 1}, shared_bytes, stream, attributes, count};
  return driver.cuLaunchKernelEx(&config, function, parameters, nullptr);
}

}  // namespace wrapperir
