// c10d's header of its Gloo group names Gloo's types, whose headers LibTorch's wheel leaves out. The group holds them
// by shared_ptr and makes them itself, so declarations are enough here; no code of Gloo's is compiled, and none is
// linked but LibTorch's own.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace gloo {

struct Context {
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace rendezvous {
struct Store {
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};
}  // namespace rendezvous

namespace transport {
class Device;
struct UnboundBuffer {
  virtual ~UnboundBuffer();
};
}  // namespace transport

}  // namespace gloo
