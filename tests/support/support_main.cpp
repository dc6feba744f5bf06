// Default entry of a test program; a program with its own main replaces it.
#include "support/catch.hpp"

int main(int argc, char** argv) {
  return run_catch(argc, argv);
}
