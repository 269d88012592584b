// All of this folder made right, to show that nothing else is wrong with them.
#define MENDED
#include "inherited_list.cpp"
#include "polymorphic_pointer.cpp"
#include "unknown_type.cpp"
