// One side of a comparison, driven by ../run.py over standard input and output: `compare_worker eager`.
#include <iostream>
#include <string>

#include "protocol.h"

int main(int argc, char** argv) {
  const std::string engine = argc > 1 ? argv[1] : "";
  if (engine == "eager") {
    diptych::bench::serve(diptych::bench::eager_cases());
    return 0;
  }
  std::cerr << "usage: compare_worker eager\n";
  return 2;
}
