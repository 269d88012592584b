// Lesson 2: train.
//
// Lesson 1 took a function apart. Here its pair is put to work: dp::aot_function gives a function that is called like
// the one it was made from, and whose loss.backward() runs the captured backward graph through PyTorch's own autograd.
// A network of two layers learns to read 1,797 handwritten digits. Run it as
//   lesson_02_train data/digits.csv
#include <diptych/diptych.h>
#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>

namespace dp = diptych;

namespace {

void check(bool holds, const char* claim) {
  if (!holds) throw std::runtime_error(std::string("this does not hold: ") + claim);
}

// 1. The data: 64 grey values from 0 to 16 and a label, a line an image.
struct Digits {
  at::Tensor images, labels;
  DIPTYCH_FIELDS(images, labels)
};

Digits read_digits(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("can't read " + path + "; pass the path of data/digits.csv");
  std::vector<float> numbers;
  for (std::string line; std::getline(stream, line);) {
    std::stringstream fields(line);
    for (std::string field; std::getline(fields, field, ',');) numbers.push_back(std::stof(field));
  }
  const auto table = torch::tensor(numbers).reshape({-1, 65});
  return {table.narrow(1, 0, 64) / 16, table.select(1, 64).to(torch::kLong)};
}

// Every sixth image is held out; the network never trains on it.
std::pair<Digits, Digits> split(const Digits& digits) {
  const at::Tensor held_out = torch::arange(digits.labels.size(0)).remainder(6).eq(0);
  const auto select = [&](const at::Tensor& which) {
    return Digits{digits.images.index({which}), digits.labels.index({which})};
  };
  return {select(held_out.logical_not()), select(held_out)};
}

Digits rows(const Digits& digits, int64_t begin, int64_t end) {
  return {digits.images.slice(0, begin, end), digits.labels.slice(0, begin, end)};
}

// 2. The model: parameters in a struct, and functions of them. A torch::nn::Module would do too: see dp::aot_module.
struct Mlp {
  at::Tensor w1, b1, w2, b2;
  DIPTYCH_FIELDS(w1, b1, w2, b2)
};

Mlp make_mlp() {
  torch::manual_seed(0);
  const auto weight = [](int64_t in, int64_t out) {
    return (torch::randn({in, out}) / std::sqrt(static_cast<double>(in))).requires_grad_();
  };
  return {weight(64, 64), torch::zeros({64}).requires_grad_(), weight(64, 10), torch::zeros({10}).requires_grad_()};
}

at::Tensor logits(const Mlp& mlp, const at::Tensor& images) {
  const at::Tensor hidden = [&] {
    const auto scope = dp::scope("hidden");
    return torch::matmul(images, mlp.w1).add(mlp.b1).relu();
  }();
  const auto scope = dp::scope("head");
  return torch::matmul(hidden, mlp.w2).add(mlp.b2);
}

at::Tensor loss_of(const Mlp& mlp, const Digits& batch) {
  return torch::nn::functional::cross_entropy(logits(mlp, batch.images), batch.labels);
}

double accuracy(const Mlp& mlp, const Digits& digits) {
  const torch::NoGradGuard no_grad;
  return logits(mlp, digits.images).argmax(1).eq(digits.labels).to(torch::kFloat).mean().item<double>();
}

// 3. One step is what it is in eager. The first call captures; later ones check the guards (sizes, dtypes, which
// inputs require grad, grad mode ...) and run the pair.
template <class Loss>
double step(const Loss& loss, const Mlp& mlp, const Digits& batch, double rate) {
  const at::Tensor value = loss(mlp, batch);
  value.backward();
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& parameter : {mlp.w1, mlp.b1, mlp.w2, mlp.b2}) {
    parameter.sub_(parameter.grad(), rate);
    parameter.mutable_grad().reset();
  }
  return value.item<double>();
}

// 4. Compiled and eager, side by side from one seed: the losses agree.
void compare_with_eager(const Digits& train) {
  const auto compiled = dp::aot_function(loss_of);
  const Mlp ours = make_mlp(), theirs = make_mlp();
  for (int i = 0; i < 20; ++i) {
    const Digits batch = rows(train, 64 * i, 64 * i + 64);
    const double difference = step(compiled, ours, batch, 0.5) - step(loss_of, theirs, batch, 0.5);
    check(std::abs(difference) < 1e-4, "each loss is eager's within 1e-4");
  }
  check(compiled.stats().misses == 1 && compiled.stats().hits == 19, "20 steps need one capture");
}

// 5. The training itself, with the partitioner that keeps the fewest bytes between forward and backward.
void train(const Mlp& mlp, const Digits& digits) {
  const auto compiled = dp::aot_function(loss_of, {.partition = dp::min_cut(), .name = "digits"});
  constexpr int64_t kBatch = 75;
  const int64_t batches = digits.labels.size(0) / kBatch;
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    double sum = 0;
    for (int64_t i = 0; i < batches; ++i) {
      sum += step(compiled, mlp, rows(digits, i * kBatch, (i + 1) * kBatch), 0.3);
    }
    last = sum / static_cast<double>(batches);
    if (epoch == 0) first = last;
    if (epoch % 5 == 4) std::cout << "epoch " << epoch + 1 << ": loss " << last << '\n';
  }
  check(last < first / 4, "the loss went down");

  // 6. A batch of another size is another capture, and the cache says what was different.
  (void)compiled(mlp, rows(digits, 0, 10));
  std::cout << "the second capture was needed because: " << compiled.stats().last_miss << '\n';
  check(compiled.stats().misses == 2, "a new batch size is a miss");
  check(compiled.stats().last_miss.find("images") != std::string::npos, "the miss names the argument");
}

}  // namespace

int main(int argc, char** argv) try {
  const auto [digits, held_out] = split(read_digits(argc > 1 ? argv[1] : "data/digits.csv"));
  compare_with_eager(digits);
  const Mlp mlp = make_mlp();
  std::cout << "read right before training: " << 100 * accuracy(mlp, held_out) << " %\n";
  train(mlp, digits);
  const double after = accuracy(mlp, held_out);
  std::cout << "read right after training: " << 100 * after << " % of " << held_out.labels.size(0)
            << " held-out digits\n";
  check(after > 0.9, "nine of ten held-out digits are read right");
  std::cout << "lesson 2: all checks hold\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
