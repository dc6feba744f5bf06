/* A plugin of qemu-user that prints how many instructions the program executed. Compiled by instructions.sh.
 * Debian's qemu-user has no header for plugins: what is used of version 1 of that interface is declared here. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*callback)(qemu_plugin_id_t id, struct qemu_plugin_tb* block));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* block, void (*callback)(unsigned int cpu, void* data),
                                          int flags, void* data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t id, void* data), void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
void qemu_plugin_outs(const char* text);

enum { kReadsNoRegisters = 0, kCpus = 256 };

int qemu_plugin_version = 1;
static uint64_t executed[kCpus]; /* of each thread of the program, so that none waits for another */

static void on_run(unsigned int cpu, void* instructions) {
  executed[cpu % kCpus] += (uintptr_t)instructions;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_cb(block, on_run, kReadsNoRegisters, (void*)qemu_plugin_tb_n_insns(block));
}

static void on_exit_of_program(qemu_plugin_id_t id, void* data) {
  (void)id, (void)data;
  uint64_t sum = 0;
  for (int cpu = 0; cpu < kCpus; ++cpu) sum += executed[cpu];
  char line[64];
  snprintf(line, sizeof line, "instructions %" PRIu64 "\n", sum);
  qemu_plugin_outs(line);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void* machine, int argc, char** argv) {
  (void)machine, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
  return 0;
}
