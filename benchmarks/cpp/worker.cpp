// One side of a comparison: `worker eager` or `worker diptych`, driven by ../run.py over standard input and output.
#include <c10/util/Exception.h>

#include <iostream>
#include <string>

#include "protocol.h"

int main(int argc, char** argv) {
  const std::string engine = argc > 1 ? argv[1] : "";
  if (engine == "eager") {
    diptych::bench::serve(diptych::bench::eager_cases());
  } else if (engine == "diptych") {
    diptych::bench::serve(diptych::bench::diptych_cases());
  } else {
    std::cerr << "usage: worker eager|diptych\n";
    return 2;
  }
  return 0;
}
