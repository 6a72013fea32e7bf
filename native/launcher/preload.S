/* The library that commands at level landlock load (preload/memory.c). */
  .section .rodata
  .global sbx_preload_start, sbx_preload_end
  .balign 16
sbx_preload_start:
  .incbin SBX_PRELOAD_FILE
sbx_preload_end:
  .section .note.GNU-stack, "", %progbits
