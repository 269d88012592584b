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
                                                   {"diptych_one_block", diptych_one_block_cases},
                                                   {"diptych_written_out", diptych_written_out_cases},
                                                   {"diptych_all_kept", diptych_all_kept_cases},
                                                   {"diptych_64_carries", diptych_64_carries_cases},
                                                   {"diptych_segment_32", diptych_segment_32_cases},
                                                   {"diptych_xla", diptych_xla_cases},
                                                   {"xla_program", xla_program_cases},
                                                   {"eager", eager_cases}};
  const auto engine = engines.find(argc > 1 ? argv[1] : "");
  if (engine == engines.end()) {
    std::cerr << "usage: compare_worker <engine>, which is one of";
    for (const auto& [name, cases] : engines) std::cerr << ' ' << name;
    std::cerr << '\n';
    return 2;
  }
  serve(engine->second());
  return 0;
}
