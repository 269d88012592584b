// All of this folder made right, to show that nothing else is wrong with them.
#define MENDED
#include "grad_of_two.cpp"
#include "void_function.cpp"
