// A plugin of an old version of the C API, which loads and is to be refused.
#include "pjrt_c_api.h"

extern "C" const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api = [] {
    PJRT_Api old{};
    old.pjrt_api_version.major_version = PJRT_API_MAJOR;
    old.pjrt_api_version.minor_version = 10;
    return old;
  }();
  return &api;
}
