// All of this folder, each with what is wrong with it: read by one compiler, which has to name them all.
#include "inherited_list.cpp"
#include "polymorphic_pointer.cpp"
#include "unknown_type.cpp"
