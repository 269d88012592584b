// What backend "native" made of a graph, to be read: its kernels with their nodes, texts, bytes and times.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "diptych/backend/backend.h"
#include "diptych/graph/graph.h"

namespace diptych {
namespace detail {
struct KernelCode;
}

/// What one call of a kernel moves and computes, counted from its code and not measured.
struct KernelWork {
  int64_t bytes_read = 0;     ///< of memory: an element that is read several times counts once
  int64_t bytes_written = 0;  ///< likewise
  int64_t flops = 0;          ///< operations on floats, one for each point; a function such as exp is one
};

/// A group of nodes that one kernel computes; or that the interpreter runs, where no kernel could be made of it.
/// Threads: any.
class NativeKernel {
 public:
  /// Requires: the body of a hop.fused node.
  explicit NativeKernel(std::shared_ptr<const Graph> body);

  /// The name that profilers show, such as "fused_mul_tanh".
  const std::string& name() const;
  /// The fused nodes, as a graph of their own.
  const Graph& nodes() const { return *body_; }
  /// Why the interpreter runs the nodes; empty if a kernel does.
  const std::string& problem() const;

  /// What it computes, as text: loads, operations, reductions and stores over an iteration space. Empty, as are the
  /// other two, where there is no kernel.
  std::string code() const;
  std::string llvm() const;      ///< its LLVM IR
  std::string assembly() const;  ///< its machine code, as assembly of this machine

  /// All zeros where there is no kernel.
  KernelWork work() const;
  /// How many calls were timed (TimeKernels), and the median time of the last thousand of them. Units: us.
  int64_t timed_calls() const;
  double median_us() const;

 private:
  std::shared_ptr<const Graph> body_;
  std::shared_ptr<const detail::KernelCode> code_;
};

/// What backend "native" made of one graph. Copies share everything.
class NativeGraph {
 public:
  /// Requires: an executable of NativeBackend for static sizes.
  NativeGraph(std::string name, std::shared_ptr<const Executable> executable);

  /// "forward" or "backward".
  const std::string& name() const { return name_; }
  /// The graph that runs: a hop.fused node for each kernel, and all other nodes, which are LibTorch's operators.
  const Graph& graph() const;
  /// Its kernels and those of its loops' bodies, in the order of their nodes.
  const std::vector<NativeKernel>& kernels() const { return kernels_; }

  /// The memory that results of kernels and products take at once at most in a run, known before the first one, if the
  /// caller holds all inputs: a backward that is the last to read what was saved takes less. By the traced sizes.
  int64_t peak_bytes() const;

  /// The kernels' code(), one after the other.
  std::string code() const;
  /// A row for each kernel: its nodes, what a call moves and computes and, if calls were timed, how long it takes and
  /// which share of the machine's memory bandwidth or of its floating-point peak that is, whichever is greater. Both
  /// are measured when they are first asked for, which takes a tenth of a second. The last line is on memory:
  /// peak_bytes(), and how much of it outlives the run.
  std::string table() const;
  /// One page that draws the graph, with the nodes of each kernel in its box; needs no network.
  std::string html() const;
  /// What was fused, and for each value that goes from one kernel to another, or to or from an operator of LibTorch,
  /// why the two are apart.
  std::string explain() const;

 private:
  std::string name_;
  std::shared_ptr<const Executable> executable_;
  std::vector<NativeKernel> kernels_;
};

/// While one lives, calls of native kernels are timed, on all threads: see NativeKernel::median_us(). Times that were
/// taken before stay.
class TimeKernels {
 public:
  TimeKernels();
  ~TimeKernels();
  TimeKernels(const TimeKernels&) = delete;
  TimeKernels& operator=(const TimeKernels&) = delete;
};

namespace detail {
/// Adds what backend "native" made of the graph of an executable, and of its parts; nothing of other backends'.
void add_native_graphs(const std::string& name, const std::shared_ptr<const Executable>& executable,
                       std::vector<NativeGraph>& graphs);
}  // namespace detail

}  // namespace diptych
