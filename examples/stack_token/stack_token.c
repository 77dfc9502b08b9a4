/* Write a stack token (docs/formats/stack-token.md) when a program crashes. Call install_stack_token() in main. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

enum { MODULES = 31, FRAMES = 64, NO_MODULE = 63 };
static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
static const int LENGTHS[] = {1, 2, 3, 4, 5, 6, 8, 11};
struct module { uint64_t bias, id; }; struct query { uint64_t pc; struct module found; };
struct stack { int count; uint64_t pc[FRAMES]; };
static char text[1024]; static int size;

static void put(uint64_t value, int characters) {
    for (int i = characters - 1; i >= 0 && size < (int)sizeof text - 1; i--)
        text[size++] = ALPHABET[i > 10 ? 0 : value >> 6 * i & 63];
}

/* The first five bytes of the build-id among notes. */
static uint64_t build_id(const char *note, const char *end) {
    while (note + sizeof(ElfW(Nhdr)) < end) {
        const ElfW(Nhdr) *head = (const ElfW(Nhdr) *)note;
        const unsigned char *id = (const unsigned char *)note + sizeof *head + ((head->n_namesz + 3) & ~3u);
        if (head->n_type == NT_GNU_BUILD_ID && head->n_descsz >= 5 && !memcmp(head + 1, "GNU", 4))
            return (uint64_t)id[0] << 32 | (uint64_t)id[1] << 24 | id[2] << 16 | id[3] << 8 | id[4];
        note = (const char *)id + ((head->n_descsz + 3) & ~3u);
    }
    return 0;
}

static int find_module(struct dl_phdr_info *info, size_t __attribute__((unused)) length, void *data) {
    struct query *query = data;
    uint64_t id = 0, inside = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const char *start = (const char *)info->dlpi_addr + segment->p_vaddr;
        inside |= segment->p_type == PT_LOAD && query->pc - (uint64_t)start < segment->p_memsz;
        if (segment->p_type == PT_NOTE && !id) id = build_id(start, start + segment->p_memsz);
    }
    if (inside) query->found = (struct module){info->dlpi_addr, id};
    return inside != 0;
}

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *data) {
    struct stack *stack = data;
    int interrupted = 0;
    uint64_t pc = _Unwind_GetIPInfo(context, &interrupted);
    if (interrupted) stack->count = 0; /* frames of the signal handler */
    if (pc && stack->count < FRAMES) stack->pc[stack->count++] = pc;
    return pc ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void encode(const struct stack *stack) {
    struct module modules[MODULES];
    uint64_t previous[NO_MODULE + 1] = {0};
    int module_of[FRAMES], count = 0, current = 0;
    for (int i = 0; i < stack->count; i++) {
        struct query query = {stack->pc[i] - (i > 0), {0, 0}};
        int number = NO_MODULE;
        if (dl_iterate_phdr(find_module, &query)) {
            for (number = 0; number < count && modules[number].bias != query.found.bias;) number++;
            if (number == count && count < MODULES) modules[count++] = query.found;
            if (number == MODULES) number = NO_MODULE;
        }
        module_of[i] = number;
    }
    size = 0, put(count, 1);
    for (int i = 0; i < count; i++) put(modules[i].id << 2, 7);
    for (int i = 0; i < stack->count; i++) {
        int number = module_of[i], code = 0;
        uint64_t address = stack->pc[i] - (number == NO_MODULE ? 0 : modules[number].bias);
        int negative = address < previous[number];
        uint64_t magnitude = negative ? previous[number] - address : address - previous[number];
        while (code < 7 && magnitude >> 6 * LENGTHS[code] >= 2) code++;
        put((number != current) << 5 | negative << 4 | code << 1 | (code < 7 && magnitude >> 6 * LENGTHS[code]), 1);
        if (number != current) put(number, 1);
        current = number, previous[number] = address;
        put(magnitude, LENGTHS[code]);
    }
    uint32_t check = 0x811C9DC5;
    for (int i = 0; i < size; i++) check = (check ^ (unsigned char)text[i]) * 0x01000193;
    put((check ^ check >> 12 ^ check >> 24) & 0xFFF, 2);
}

static void crashed(int number) {
    struct stack stack = {0};
    _Unwind_Backtrace(add_frame, &stack);
    encode(&stack);
    text[size++] = '\n';
    if (write(2, "crashed: wst1.", 14) > 0 && write(2, text, size) > 0) {}
    signal(number, SIG_DFL), raise(number);
}

void install_stack_token(void) {
    for (int i = 0; i < 3; i++) signal((int[]){SIGSEGV, SIGABRT, SIGFPE}[i], crashed);
}
