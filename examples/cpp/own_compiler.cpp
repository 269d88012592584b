// A compiler of one's own: any callable from a graph to an executable. This one notes what each run takes, and leaves
// the work to the interpreter.
#include <diptych/diptych.h>
#include <torch/types.h>

#include <iostream>

namespace dp = diptych;

class Noting final : public dp::Executable {
 public:
  explicit Noting(const dp::Graph& graph)
      : name_(graph.name()), inner_(dp::compiler_of(dp::backend_by_name("interpreter"))(graph)) {}
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    std::cout << "runs " << name_ << " on " << inputs.size() << " tensors\n";
    return inner_->run(std::move(inputs));
  }

 private:
  std::string name_;
  std::shared_ptr<const dp::Executable> inner_;
};

int main() {
  const dp::Compiler compile = [](const dp::Graph& graph) {
    std::cout << "compiles " << graph.name() << ", " << graph.nodes().size() << " nodes\n";
    return std::make_shared<Noting>(graph);
  };
  const auto loss = dp::aot_function([](const at::Tensor& w, const at::Tensor& x) { return x.matmul(w).tanh().sum(); },
                                     {.forward_compiler = compile, .backward_compiler = compile});
  const auto w = torch::ones({3, 2}).requires_grad_();
  loss(w, torch::ones({4, 3})).backward();
  std::cout << w.grad().sizes() << '\n';
}
