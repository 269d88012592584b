// One side of a comparison, driven by ../run.py over standard input and output: `compare_worker diptych`.
#include <iostream>
#include <map>
#include <string>

#include "protocol.h"

int main(int argc, char** argv) {
  using namespace diptych::bench;
  const std::map<std::string, Cases (*)()> engines{{"diptych", diptych_cases},
                                                   {"diptych_joint", diptych_joint_cases},
                                                   {"diptych_min_cut", diptych_min_cut_cases},
                                                   {"eager", eager_cases}};
  const auto engine = engines.find(argc > 1 ? argv[1] : "");
  if (engine == engines.end()) {
    std::cerr << "usage: compare_worker diptych|diptych_joint|diptych_min_cut|eager\n";
    return 2;
  }
  serve(engine->second());
  return 0;
}
