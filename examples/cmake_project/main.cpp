// Reads the graph of tanh(x) * x, checks it and prints it: the smallest program that uses an installed Diptych.
#include <diptych/graph/parse.h>
#include <diptych/graph/verify.h>

#include <exception>
#include <iostream>

int main() try {
  const diptych::Graph graph = diptych::parse(R"(
graph tanh_times_x(%0 x : f32[2,3])
  %1 : f32[2,3] = aten.tanh(%0)
  %2 : f32[2,3] = aten.mul.Tensor(%1, %0)
  return (%2 y)
)");
  diptych::verify(graph);
  std::cout << graph.code() << graph.table();
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
