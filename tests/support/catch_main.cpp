// The test runner, compiled once (Catch2 version 2 is a header; version 3 is a library).
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include "support/catch.hpp"

int run_catch(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
