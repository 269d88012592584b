// The devices that a PJRT plugin opens in this process.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "diptych/xla/pjrt/pjrt_api.h"

namespace diptych::detail {

/// The devices that one plugin opens in this process.
class PjrtClient {
 public:
  /// Opens the devices of a plugin; `cpu_devices` is the number of devices that the CPU plugin presents, each of which
  /// runs on all cores, or nothing for the plugin's own choice. Errors: UserError holds the plugin's text.
  explicit PjrtClient(const PjrtApi& api, std::optional<int64_t> cpu_devices = {});

  /// The client of the plugin that find_pjrt_plugin() names; opened once for each plugin and kept, with as many CPU
  /// devices as the environment variable DIPTYCH_XLA_CPU_DEVICES says when it is opened. Threads: any.
  /// Errors: UserError for a variable that is not a positive whole number, and in a process that was forked after the
  /// plugin was loaded.
  static std::shared_ptr<const PjrtClient> shared();

  const PjrtApi& api() const { return api_; }
  PJRT_Client* get() const { return client_.get(); }
  /// Errors: UserError for a device that is not there.
  PJRT_Device* device(size_t index) const;
  size_t num_devices() const { return devices_.size(); }
  /// The number by which the plugin knows a device.
  int device_id(size_t index) const;
  /// "cpu", "cuda", "tpu".
  const std::string& platform() const { return platform_; }
  /// Keeps other threads from launching on several devices until the lock is gone, so that all devices meet such
  /// programs in one order: they wait for one another. A program of one device needs no lock.
  std::unique_lock<std::mutex> lock_launch(size_t num_devices) const;
  /// Text that differs between clients whose compiled programs do: the plugin's file and versions, the flags of
  /// the environment, and the kind of its devices.
  std::string fingerprint() const;

 private:
  const PjrtApi& api_;
  PjrtClientHandle client_;
  std::string platform_;
  std::vector<PJRT_Device*> devices_;
  mutable std::mutex launch_;
};

}  // namespace diptych::detail
