section .text
global _start, other
_start: mov eax, 60
 xor edi, edi
%macro twice 1
 %1
 %1
%endmacro
 twice nop
.loop: dec edi
 jnz .loop
 syscall
other: nop
 ret
