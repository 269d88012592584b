// All of this folder, each with what is wrong with it: read by one compiler, which has to name them all.
#include "grad_of_two.cpp"
#include "void_function.cpp"
