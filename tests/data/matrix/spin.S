/* Assembly: a function with a size, and lines that only the line program knows. */
    .text
    .globl spin
    .type spin, %function
spin:
#if defined(__x86_64__)
    movl %edi, %eax
1:  shrl $1, %edi
    jz 2f
    xorl %edi, %eax
    jmp 1b
2:  ret
#elif defined(__i386__)
    movl 4(%esp), %eax
    nop
    ret
#else
    nop
    nop
#endif
    .size spin, . - spin
    .section .note.GNU-stack, "", %progbits
