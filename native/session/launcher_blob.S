/* The launcher program as read-only data of the addon. */
  .section .rodata
  .balign 16
  .global sbx_launcher_start
  .hidden sbx_launcher_start
  .type sbx_launcher_start, %object
sbx_launcher_start:
  .incbin SBX_LAUNCHER_FILE
  .global sbx_launcher_end
  .hidden sbx_launcher_end
  .type sbx_launcher_end, %object
sbx_launcher_end:
  .byte 0
  .section .note.GNU-stack,"",%progbits
