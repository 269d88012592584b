// What Debian's LLVM calls for the names of temporary files is in glibc since 2.36 alone; with this one in its place
// the shared library loads beside older ones.
#include <sys/random.h>

#include <cstdint>

extern "C" {

uint32_t diptych_llvm_random() __asm__("arc4random");

__attribute__((visibility("hidden"))) uint32_t diptych_llvm_random() {
  uint32_t bits = 0;
  while (getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) {
  }
  return bits;
}

}  // extern "C"
