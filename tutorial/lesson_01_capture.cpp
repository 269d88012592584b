// Lesson 1: capture.
//
// Diptych takes a function on tensors and gives back two graphs: a forward graph, and the backward graph that goes with
// it. This lesson captures a small function, looks at the pair from every side, and runs both halves by hand. Run it as
//   lesson_01_capture <a folder for its files>
// Every claim below is checked as the program runs; it stops at the first that does not hold.
#include <diptych/diptych.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace dp = diptych;

namespace {

void check(bool holds, const char* claim) {
  if (!holds) throw std::runtime_error(std::string("this does not hold: ") + claim);
}

// 1. A function. It takes whatever tree of tensors you like; here a struct, which lists its fields once.
struct Layer {
  at::Tensor weight, bias;
  DIPTYCH_FIELDS(weight, bias)
};

// A scope names a stretch of the function; nodes remember it. Outside a capture it costs next to nothing.
at::Tensor apply(const Layer& layer, const at::Tensor& x) {
  const auto block = dp::scope("layer");
  return torch::matmul(x, layer.weight).add(layer.bias).tanh();
}

Layer make_layer() {
  torch::manual_seed(1);
  return {torch::randn({3, 2}).requires_grad_(), torch::zeros({2}).requires_grad_()};
}

// 2. Capturing it. The function runs once, on stand-ins that have shapes and no data. Nothing is computed, and no
// argument changes.
dp::Pair capture_layer(const Layer& layer, const at::Tensor& x) {
  const dp::Pair pair = dp::capture_with({.argument_names = {"layer", "x"}, .name = "layer"}, apply, layer, x);
  std::cout << "The forward graph:\n" << pair.forward.code() << '\n';
  std::cout << "The backward graph:\n" << pair.backward.code() << '\n';
  check(pair.forward.code().find("aten.tanh") != std::string::npos, "the forward graph holds the tanh");
  check(pair.forward.code().find("# layer") != std::string::npos, "its nodes know their scope");
  check(pair.backward.code().find("aten.tanh_backward") != std::string::npos,
        "the backward graph holds tanh's derivative");
  return pair;
}

// 3. The signature says what stands in each slot. Slots never move: arguments come flattened in the order of the
// fields, then tensors that the function merely captured, and the gradients come in the order of the inputs.
void read_signature(const dp::Pair& pair) {
  std::cout << "The signature:\n" << pair.signature << '\n';
  check(pair.signature.index_of_input("layer.bias") == 1, "layer.bias is the second input");
  check(pair.signature.has_gradient("layer.weight"), "the weight gets a gradient");
  check(!pair.signature.has_gradient("x"), "x does not require grad, so nothing flows to it");
}

// 4. What does the forward keep for the backward, and why?
void read_residuals(const dp::Pair& pair) {
  std::cout << "What the forward saves:\n" << pair.explain() << '\n';
  check(dp::residual_bytes(pair.split) <= 4 * 2 * 4, "no more than the result of tanh is kept");
}

// 5. Both halves can be called without autograd, as functions of plain tensors. This is what one builds other
// things from: a scan, a pipeline stage, a checkpoint.
void call_by_hand(const dp::Pair& pair, const Layer& layer, const at::Tensor& x) {
  const auto [outputs, residuals] = pair.forward_call({layer.weight, layer.bias, x});
  check(!outputs[0].requires_grad(), "forward_call runs without autograd");
  const at::Tensor tangent = torch::ones_like(outputs[0]);
  const auto gradients = pair.backward_call(residuals, {tangent});

  const at::Tensor eager = apply(layer, x);
  const auto wanted = torch::autograd::grad({eager}, {layer.weight, layer.bias}, {tangent});
  check(at::equal(outputs[0], eager), "the forward gives eager's values");
  check(at::equal(gradients[pair.signature.gradient_of("layer.weight")], wanted[0]),
        "the weight's gradient is eager's");
  check(at::equal(gradients[pair.signature.gradient_of("layer.bias")], wanted[1]), "the bias's gradient is eager's");
  check(!gradients[2].defined(), "an input that nothing flows to has an undefined gradient, not zeros");
}

// 6. A picture: one page that draws the pair, and needs nothing but a browser.
void draw(const dp::Pair& pair, const std::filesystem::path& folder) {
  const auto page = folder / "layer.html";
  std::ofstream(page) << pair.html();
  std::cout << "The picture is in " << page.string() << '\n';
  check(std::filesystem::file_size(page) > 1000, "the page was written");
}

// 7. Graphs are values: text that can be read back, and files that survive the program.
void save_and_load(const dp::Pair& pair, const std::filesystem::path& folder) {
  check(dp::parse(pair.forward.code()).code() == pair.forward.code(), "what code() prints, parse() reads");
  const auto path = (folder / "layer.graphs").string();
  dp::save(dp::GraphFile{{{"forward", pair.forward}, {"backward", pair.backward}}, {{"made_by", "lesson 1"}}}, path);
  const dp::GraphFile file = dp::load(path);
  dp::verify(file.graph("backward"));
  check(file.graph("forward").code() == pair.forward.code(), "a loaded graph is the one that was saved");
  check(file.metadata.at("made_by") == "lesson 1", "and it has its metadata");
}

// 8. What a graph can't hold is refused, by name and with a way out.
void meet_a_refusal(const Layer& layer, const at::Tensor& x) {
  const auto decide = [](const Layer& l, const at::Tensor& t) {
    const at::Tensor y = apply(l, t);
    return y.sum().item<float>() > 0 ? y : -y;
  };
  try {
    (void)dp::capture(decide, layer, x);
    check(false, "a decision that needs a tensor's value is refused");
  } catch (const dp::UserError& error) {
    std::cout << "As it should be, refused:\n  " << error.what() << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  const Layer layer = make_layer();
  const at::Tensor x = torch::randn({4, 3});
  const dp::Pair pair = capture_layer(layer, x);
  read_signature(pair);
  read_residuals(pair);
  call_by_hand(pair, layer, x);
  draw(pair, folder);
  save_and_load(pair, folder);
  meet_a_refusal(layer, x);
  std::cout << "lesson 1: all checks hold\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
