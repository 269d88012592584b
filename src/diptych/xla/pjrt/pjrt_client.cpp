#include "diptych/xla/pjrt/pjrt_client.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

constexpr const char* kCpuDevices = "DIPTYCH_XLA_CPU_DEVICES";

std::optional<int64_t> cpu_devices_by_environment() {
  const char* const value = std::getenv(kCpuDevices);
  if (value == nullptr || *value == '\0') return {};
  const std::string_view text = value;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  DIPTYCH_CHECK(error == std::errc() && end == text.data() + text.size() && number > 0,
                "[xla] the environment variable {} is '{}', expected a positive whole number", kCpuDevices, text);
  return number;
}

PJRT_NamedValue cpu_device_count(int64_t number) {
  constexpr std::string_view kName = "cpu_device_count";
  PJRT_NamedValue option{};
  option.struct_size = sizeof(option);
  option.name = kName.data();
  option.name_size = kName.size();
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = number;
  option.value_size = 1;
  return option;
}

// The instruction sets of a CPU, the generation of another device.
std::string topology_text(const PjrtClient& client) {
  const PjrtApi& api = client.api();
  PJRT_Client_TopologyDescription_Args get{};
  get.client = client.get();
  api.call(api.table().PJRT_Client_TopologyDescription, get, "asking for the kind of the devices");
  PJRT_TopologyDescription_Serialize_Args args{};
  args.topology = get.topology;
  api.call(api.table().PJRT_TopologyDescription_Serialize, args, "writing the kind of the devices");
  std::string text(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_topology_deleter(args.serialized_topology);
  return text;
}

// What tells a plugin how to compile beside the options that it is called with. Plugins read it once, when they start.
const std::string& flags_of_environment() {
  static const std::string flags = [] {
    std::string text;
    for (const char* const name : {"XLA_FLAGS", "LIBTPU_INIT_ARGS"}) {
      const char* const value = std::getenv(name);
      text += fmt::format("{}={} ", name, value == nullptr ? "" : value);
    }
    return text;
  }();
  return flags;
}

// A run takes memory for its results and temporaries and frees it again. glibc's malloc hands large blocks back to the
// kernel, so that each run faults its pages in anew, until the program has freed a block of such a size itself: the
// size of the largest one, up to 32 MB, is what it keeps from then on. Until then an MLP's step takes twice its time.
void keep_freed_memory() {
  constexpr size_t kLargestKept = size_t{31} << 20;
  void* volatile block = std::malloc(kLargestKept);
  std::free(block);
}

}  // namespace

PjrtClient::PjrtClient(const PjrtApi& api, std::optional<int64_t> cpu_devices) : api_(api), client_(nullptr, {&api}) {
  api.check_process();
  flags_of_environment();  // as they are when the plugin starts
  const PJRT_NamedValue option = cpu_device_count(cpu_devices.value_or(1));
  PJRT_Client_Create_Args create{};
  if (cpu_devices) {
    create.create_options = &option;
    create.num_options = 1;
  }
  api.call(api.table().PJRT_Client_Create, create,
           cpu_devices ? fmt::format("opening {} CPU devices ({}) by the PJRT plugin", *cpu_devices, kCpuDevices)
                       : "opening the devices of the PJRT plugin");
  client_.reset(create.client);
  PJRT_Client_PlatformName_Args platform{};
  platform.client = get();
  api.call(api.table().PJRT_Client_PlatformName, platform, "asking for the platform");
  platform_.assign(platform.platform_name, platform.platform_name_size);
  if (platform_ == "cpu") keep_freed_memory();
  PJRT_Client_AddressableDevices_Args devices{};
  devices.client = get();
  api.call(api.table().PJRT_Client_AddressableDevices, devices, "listing devices");
  devices_.assign(devices.addressable_devices, devices.addressable_devices + devices.num_addressable_devices);
  DIPTYCH_CHECK(!devices_.empty(), "[xla] the PJRT plugin '{}' has no device; check its driver", api.path());
}

std::shared_ptr<const PjrtClient> PjrtClient::shared() {
  static std::mutex mutex;
  static auto& clients = *new std::map<std::string, std::shared_ptr<const PjrtClient>>();  // outlives static tensors
  const std::string path = find_pjrt_plugin();
  const std::lock_guard lock(mutex);
  auto& client = clients[path];
  if (client == nullptr) {
    client = std::make_shared<const PjrtClient>(PjrtApi::load(path), cpu_devices_by_environment());
  }
  client->api().check_process();
  return client;
}

PJRT_Device* PjrtClient::device(size_t index) const {
  DIPTYCH_CHECK(index < devices_.size(), "[xla] got device {}, expected one of the {} of the PJRT plugin, from 0 on",
                index, devices_.size());
  return devices_[index];
}

int PjrtClient::device_id(size_t index) const {
  PJRT_Device_GetDescription_Args get{};
  get.device = device(index);
  api_.call(api_.table().PJRT_Device_GetDescription, get, "describing a device");
  PJRT_DeviceDescription_Id_Args args{};
  args.device_description = get.device_description;
  api_.call(api_.table().PJRT_DeviceDescription_Id, args, "asking for a device's number");
  return args.id;
}

std::unique_lock<std::mutex> PjrtClient::lock_launch(size_t num_devices) const {
  return num_devices > 1 ? std::unique_lock(launch_) : std::unique_lock<std::mutex>();
}

std::string PjrtClient::fingerprint() const {
  PJRT_Client_PlatformVersion_Args version{};
  version.client = get();
  api_.call(api_.table().PJRT_Client_PlatformVersion, version, "asking for the platform's version");
  const auto& api_version = api_.table().pjrt_api_version;
  std::error_code ignored;  // a plugin that is gone meanwhile has size -1, which is as good as another
  return fmt::format(
      "{} {} {}.{} {} {} {}{}", platform_, std::string_view(version.platform_version, version.platform_version_size),
      api_version.major_version, api_version.minor_version, std::filesystem::file_size(api_.path(), ignored),
      std::filesystem::last_write_time(api_.path(), ignored).time_since_epoch().count(), flags_of_environment(),
      topology_text(*this));
}

}  // namespace diptych::detail
