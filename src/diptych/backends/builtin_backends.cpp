// The only file above the backends that names a backend, but for training/.
#include "diptych/backends/builtin_backends.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "diptych/backend/background_compile.h"
#include "diptych/backend/checked_executable.h"
#include "diptych/backend/fallback.h"
#include "diptych/backend/interpreter_backend.h"
#include "diptych/backends/stablehlo.h"
#include "diptych/base/check.h"
#include "diptych/native/native_backend.h"
#include "diptych/xla/export_graph.h"
#include "diptych/xla/xla_backend.h"

namespace diptych {

using namespace detail;
namespace {

struct Row {
  const char* name;
  std::shared_ptr<const Backend> (*make)();
  std::shared_ptr<const Backend> (*make_drawing)() = nullptr;   // one that draws on its device; null if there is none
  std::shared_ptr<const Backend> (*make_checking)() = nullptr;  // one that checks its kernels; null if it has none
};
constexpr Row kBackends[] = {
    {"interpreter", []() -> std::shared_ptr<const Backend> { return std::make_shared<InterpreterBackend>(); }},
    {"xla", []() -> std::shared_ptr<const Backend> { return std::make_shared<XlaBackend>(); },
     []() -> std::shared_ptr<const Backend> { return std::make_shared<XlaBackend>(/*draws_on_device=*/true); }},
    {"native", []() -> std::shared_ptr<const Backend> { return std::make_shared<NativeBackend>(); }, nullptr,
     []() -> std::shared_ptr<const Backend> { return std::make_shared<NativeBackend>(/*checks_kernels=*/true); }},
};

const Row& row_of(const std::string& name) {
  const Row* const row =
      std::find_if(std::begin(kBackends), std::end(kBackends), [&](const Row& of) { return name == of.name; });
  if (row != std::end(kBackends)) return *row;
  throw UserError(fmt::format("[backend] got '{}', expected one of: {}", name, fmt::join(backend_names(), ", ")));
}

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Row& row : kBackends) names.emplace_back(row.name);
  return names;
}

const std::string& default_backend() {
  static const std::string name = [] {
    const char* const text = std::getenv("DIPTYCH_BACKEND");
    return std::string(text == nullptr || *text == '\0' ? "native" : text);
  }();
  return name;
}

std::shared_ptr<const Backend> backend_by_name(const std::string& name, const std::string& draws) {
  const bool on_device = draws_on_device(draws, "backend");
  const Row& row = row_of(name);
  DIPTYCH_CHECK(!on_device || row.make_drawing != nullptr,
                "[backend] '{}' got draws 'device', but it draws with eager's generator alone, on the host; use "
                "draws 'host', or backend 'xla'",
                name);
  return on_device ? row.make_drawing() : row.make();
}

std::shared_ptr<const Backend> detail::checking_backend_by_name(const std::string& name) {
  const Row& row = row_of(name);
  return row.make_checking == nullptr ? nullptr : row.make_checking();
}

bool detail::draws_on_device(const std::string& draws, const std::string& who) {
  DIPTYCH_CHECK(draws == "host" || draws == "device", "[{}] got draws '{}', expected 'host' or 'device'", who, draws);
  return draws == "device";
}

std::string stablehlo(const Graph& graph) { return detail::stablehlo_module(graph).text; }

StableHloModule detail::stablehlo_module(const Graph& graph) { return export_graph(graph); }

Compiler compiler_of(std::shared_ptr<const Backend> backend) {
  return [backend](const Graph& graph) {
    return checked_executable(compile_with_fallback(*backend, graph), graph, backend->name());
  };
}

void wait_for_compilers() { detail::wait_for_background(); }

Compiler checked_compiler(Compiler compiler, std::string role) {
  return [compiler = std::move(compiler), role = std::move(role)](const Graph& graph) {
    auto executable = compiler(graph);
    DIPTYCH_CHECK(executable != nullptr, "[{} compiler] returned no executable for graph '{}'; return one", role,
                  graph.name());
    return checked_executable(std::move(executable), graph, role + " compiler");
  };
}

}  // namespace diptych
