// The two boxed kernels through which every operator of a traced function passes, and their registration.
//
// Note [From a call to a node]: the user's call meets kFrontKey, where real tensors are exchanged for stand-ins. Then
// autocast and autograd run as in eager, and ATen's functionalization removes mutation. At kFakeKey the call is
// recorded.
#pragma once

namespace diptych::detail {

/// Gives operators that libraries have defined since their kernels; to be called before a trace begins. Calling it
/// makes the linker keep the registration of the dispatch kernels.
void link_dispatch_kernels();

}  // namespace diptych::detail
