// What is found out about a trained model.
#pragma once
#include <string>

namespace examples {

/// One result, in words: "validation loss", "1.52"; or a longer text, such as a sample.
struct Finding {
  std::string name;
  std::string text;
};

}  // namespace examples
