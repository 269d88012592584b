// Three functions in the versions that systems since 2021 have (glibc 2.34, GLIBCXX 3.4.29): built on a newer system,
// the library would ask for that one's, which do the same. The linker leads what calls them here, by --wrap, whose
// names these are.
#if defined(__x86_64__) && defined(__GLIBC__)
extern "C" {

__asm__(".symver diptych_old_hypot, hypot@GLIBC_2.2.5");
__asm__(".symver diptych_old_hypotf, hypotf@GLIBC_2.2.5");
__asm__(".symver diptych_old_wait, _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");

double diptych_old_hypot(double x, double y);
float diptych_old_hypotf(float x, float y);
void diptych_old_wait(void* condition, void* lock);

// NOLINTBEGIN(bugprone-reserved-identifier)
double __wrap_hypot(double x, double y) { return diptych_old_hypot(x, y); }
float __wrap_hypotf(float x, float y) { return diptych_old_hypotf(x, y); }
void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(void* condition, void* lock) {
  diptych_old_wait(condition, lock);
}
// NOLINTEND(bugprone-reserved-identifier)

}  // extern "C"
#endif
