#include "diptych/backward/engine_gate.h"

#include <torch/csrc/autograd/engine.h>

#include <atomic>
#include <mutex>
#include <typeinfo>

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

std::atomic<bool> is_watched{false};

std::mutex& entrance() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

/// Held by a thread that is entering. A thread that holds it does not wait for itself.
class Entry {
 public:
  Entry() : is_first_(current == nullptr) {
    if (!is_watched || !is_first_) return;
    lock_ = std::unique_lock(entrance());
    current = this;
  }
  ~Entry() {
    if (current == this) current = nullptr;
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  static void leave() {
    if (current == nullptr) return;
    current->lock_.unlock();
    current = nullptr;
  }

 private:
  static thread_local Entry* current;
  bool is_first_;
  std::unique_lock<std::mutex> lock_;
};

thread_local Entry* Entry::current = nullptr;

class OrderlyEngine final : public ag::Engine {
 public:
  ag::variable_list execute(const ag::edge_list& roots, const ag::variable_list& inputs, bool keep_graph,
                            bool create_graph, bool accumulate_grad, const ag::edge_list& outputs) override {
    const Entry entry;
    return ag::Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
};

ag::Engine& orderly_engine() {
  static auto* const engine = new OrderlyEngine;
  return *engine;
}

}  // namespace

void make_entries_orderly() {
  static std::once_flag once;
  std::call_once(once, [] {
    const ag::Engine& engine = ag::Engine::get_default_engine();
    if (typeid(engine) == typeid(ag::Engine)) ag::set_default_engine_stub(orderly_engine);
  });
}

void set_entries_watched(bool watched) { is_watched = watched; }

void leave_entry() { Entry::leave(); }

}  // namespace diptych::detail
