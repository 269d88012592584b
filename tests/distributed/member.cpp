// A program of two processes, one of which comes to an end that its argument names.
#include <ATen/ops/ones.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "diptych/base/error.h"
#include "diptych/distributed/process.h"

namespace {

using namespace diptych::distributed;

void end(const std::string& how) {
  if (how == "die") ::kill(::getpid(), SIGKILL);
  if (how == "throw") throw std::runtime_error("a mistake of rank 1");
  if (how == "exit") ::_exit(0);
  if (how == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
}

void run(const std::string& how, double timeout) {
  const auto process = init({.timeout = timeout});
  for (int step = 0; step < 5; ++step) {
    if (step == 3 && process.rank() == 1) end(how);
    process.all_reduce(at::ones({1000}));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "", argc > 2 ? std::atof(argv[2]) : 60);
    return 0;
  } catch (const diptych::UserError& error) {
    std::fprintf(stderr, "UserError: %s\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 4;
  }
}
