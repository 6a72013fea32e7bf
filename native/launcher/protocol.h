/* The wire between the engine (host side) and the launcher (inside).
 *
 * Both ends are built from one tree and never meet another version, so the
 * layout is host-endian structs. Control is a SOCK_SEQPACKET pair: one message
 * is one packet. Host -> PID 1 is trusted but bound-checked; nothing that
 * PID 1 answers is used as an index or a pid on the host.
 */
#ifndef SBX_LAUNCHER_PROTOCOL_H
#define SBX_LAUNCHER_PROTOCOL_H

#include <stdint.h>

/* Descriptors the launcher is started with. 0, 1 and 2 are /dev/null, the
 * environment is empty. */
enum {
  SBX_FD_CONTROL = 3, /* SEQPACKET; PID 1 keeps it, the monitor closes it */
  SBX_FD_LIFE = 4,    /* pipe read end held by the monitor; EOF = host died */
  SBX_FD_CONFIG = 5   /* memfd with struct sbx_config_item records */
};

/* Bytes that the host may write to the life pipe; the last one counts. The
 * monitor stays until end of file, also after a failed set-up or the death of
 * PID 1, then removes the session folder and exits. */
enum {
  SBX_LIFE_KEEP = 'K',  /* leave the session folder where it is */
  SBX_LIFE_REMOVE = 'R' /* remove it after all */
};

/* What the monitor says to PID 1 over the lifeline, a byte each. */
enum {
  SBX_WORD_GO = 'g',    /* begin */
  SBX_WORD_GROUP = 'G', /* begin; you are in the session's control group */
  SBX_WORD_FULL = 'W'   /* the workspace has grown beyond its limit */
};

/* ---- configuration ---- */

/* Records follow each other: header, then len bytes, padded to 8. Numbers are
 * uint64_t. Paths are absolute, NUL-terminated, the NUL counted in len. */
struct sbx_config_item {
  uint32_t tag;
  uint32_t len;
};

enum sbx_config_tag {
  SBX_CONFIG_WORKSPACE = 1, /* path on the host */
  SBX_CONFIG_MOUNTPOINT,    /* path inside, e.g. /workspace */
  SBX_CONFIG_LEVEL,         /* number: enum sbx_level */
  SBX_CONFIG_UID_BASE,      /* number: first host id of a 65,536 range given to
                               this session; absent: map the caller's own id */
  SBX_CONFIG_INNER_ID,      /* number: uid and gid inside (1000) */
  SBX_CONFIG_OWNER_UID,     /* number: on-disk owner of the workspace */
  SBX_CONFIG_OWNER_GID,
  SBX_CONFIG_IDMAP,   /* number: 1 = mount the workspace with its owners mapped
                         into the range (a given directory, host is root) */
  SBX_CONFIG_BIND_RO, /* "source\0destination\0"; a missing source is skipped */
  SBX_CONFIG_BIND_RW, /* the same; a missing source is an error */
  SBX_CONFIG_SYMLINK, /* "target\0path\0" */
  SBX_CONFIG_FILE,    /* "path\0" then the bytes of a synthetic file, 0444 */
  SBX_CONFIG_MASK,    /* path covered by an empty file or folder, if present */
  SBX_CONFIG_TMPFS,   /* path: an empty writable folder owned by INNER_ID */
  SBX_CONFIG_NETWORK, /* number: 0 deny (own namespace), 1 allow (host's) */
  SBX_CONFIG_HOSTNAME,
  SBX_CONFIG_NPROC,      /* number: RLIMIT_NPROC inside */
  SBX_CONFIG_NOFILE,     /* number: RLIMIT_NOFILE hard limit */
  SBX_CONFIG_REMOVE,     /* path of the session folder that the monitor removes
                            when the session is over (absent: keep) */
  SBX_CONFIG_FAIL_STEP,  /* number: tests only, this set-up step fails ... */
  SBX_CONFIG_FAIL_ERRNO, /* ... with this errno */
  SBX_CONFIG_TMP_BYTES,  /* number: size limit of each writable tmpfs */
  SBX_CONFIG_MAKE,       /* number: 1 = the monitor makes the REMOVE folder
                            (0700, must not exist) and the workspace in it,
                            owned by INNER_ID of the range. So no moment exists
                            at which a killed host leaves one behind. */

  /* SBX_LEVEL_LANDLOCK only. */
  SBX_CONFIG_RUN_UID = 200, /* number: host ids of the commands; absent: the */
  SBX_CONFIG_RUN_GID,       /* caller's own. Nobody else has them if UID_BASE
                               is given, too */
  SBX_CONFIG_SCRATCH,       /* path: the monitor makes it (must not exist) with
                               the folders home, tmp, shm and lib, and removes
                               it; lib holds SBX_SCRATCH_LIBRARY */
  SBX_CONFIG_TCP_PORT,      /* number, repeated: may be bound, connected to */
  SBX_CONFIG_TCP_CONNECT,   /* number, repeated: may be connected to */

  /* Limits; absent: none. */
  SBX_CONFIG_MEMORY = 400,    /* number: bytes of all processes together */
  SBX_CONFIG_CPU = 401,       /* number: thousandths of a core */
  SBX_CONFIG_FILE_SIZE = 402, /* number: bytes of one file */
  SBX_CONFIG_WORKSPACE_SIZE = 403, /* number: bytes on disk */
  SBX_CONFIG_CGROUP = 404, /* path: tests only, the control group to make the
                             session's in, in place of the launcher's own */

  SBX_CONFIG_LOWER = 500, /* path of a template: mounted below the workspace, in
                             which "upper" and "work" are then made (MAKE). Where
                             that cannot be, "upper" alone is the workspace */
  SBX_CONFIG_LOWER_BASE,  /* number: first id of the range that owns the template,
                             mapped to UID_BASE */
  SBX_CONFIG_PROTECT      /* path relative to the workspace, read-only inside if
                             it is there */
};

/* Loaded by commands (LD_PRELOAD); it keeps named semaphores and shared memory
 * in the folder that the variable SANDBOX_SHM names. */
#define SBX_SCRATCH_LIBRARY "libsandbox-memory.so"

enum sbx_level { SBX_LEVEL_NONE = 0, SBX_LEVEL_LANDLOCK = 1, SBX_LEVEL_FULL = 2 };

/* Set-up steps, in order. A failure names one of them; keep the engine's table
 * of names and remedies (native/session/setup.c) in step. */
enum sbx_setup {
  SBX_SETUP_CONFIG = 1,   /* read and check the configuration */
  SBX_SETUP_WORKSPACE,    /* open the workspace */
  SBX_SETUP_IDMAP,        /* detached, id-mapped clone of the workspace */
  SBX_SETUP_NAMESPACES,   /* clone(NEWUSER|NEWNS|NEWPID|NEWIPC|NEWUTS|NEWNET..) */
  SBX_SETUP_UID_MAP,      /* write setgroups, uid_map and gid_map */
  SBX_SETUP_SETID,        /* become INNER_ID */
  SBX_SETUP_LIFELINE,     /* pipe between monitor and PID 1 */
  SBX_SETUP_ROOT,         /* private propagation, new root tmpfs */
  SBX_SETUP_BINDS,        /* read-only view of the system */
  SBX_SETUP_FILES,        /* synthetic files, masks, tmpfs folders */
  SBX_SETUP_PROC,         /* fresh /proc, masked */
  SBX_SETUP_DEV,          /* minimal /dev, devpts, shm */
  SBX_SETUP_MOUNT_WORKSPACE,
  SBX_SETUP_PIVOT,        /* pivot_root, detach the old root */
  SBX_SETUP_LOOPBACK,     /* bring lo up */
  SBX_SETUP_HOSTNAME,
  SBX_SETUP_CAPABILITIES, /* drop bounding, ambient, securebits, all sets */
  SBX_SETUP_RLIMITS,
  SBX_SETUP_NO_NEW_PRIVS,
  SBX_SETUP_LANDLOCK,     /* only an error of an existing Landlock fails */
  SBX_SETUP_SECCOMP,
  SBX_SETUP_READY,        /* open the directory fds, answer */
  SBX_SETUP_COUNT
};

/* ---- control messages ---- */

enum {
  SBX_MSG_INLINE_MAX = 60 * 1024, /* larger spawn payloads travel in a memfd */
  SBX_MSG_FDS_MAX = 5
};

struct sbx_msg {
  uint32_t type;
  uint32_t id; /* command id chosen by the host, unique for the session */
  uint32_t a;
  uint32_t b;
};

enum sbx_msg_type {
  /* host -> PID 1 */
  SBX_MSG_SPAWN = 1, /* a: enum sbx_spawn_flag; fds in the order stdin (if
                        STDIN_FD), stdout, stderr, payload memfd (if MEMFD).
                        payload: uint32_t argc, envc; then cwd\0, argv strings,
                        env strings, each with its NUL. argv[0] without a slash
                        is looked up in the PATH of that env. */
  SBX_MSG_SIGNAL,    /* a: signal; b: enum sbx_scope */
  SBX_MSG_END,       /* a: grace in ms, b: scope TREE or ALL. TERM now, KILL to
                        what is left after the grace; 0: KILL at once. For ALL
                        the answer SBX_MSG_EMPTY comes when no process but
                        PID 1 is left. Freezes and rescans so that nothing that
                        forks meanwhile gets away. A second END shortens the
                        grace. Still heard for a command that exited less than
                        two seconds ago: the two may have crossed. */
  SBX_MSG_DRAIN,     /* fds: read ends to read and drop until EOF */
  SBX_MSG_CONNECT = 30, /* a: port; 127.0.0.1, then ::1. Answer CONNECTED */
  SBX_MSG_LISTEN = 31,  /* a: port on 127.0.0.1. Answer LISTENING */
  SBX_MSG_PAUSE = 40,   /* stops every process; answered by PAUSED. The host
                           sends no SPAWN until UNPAUSE. */
  SBX_MSG_UNPAUSE = 41, /* lets go on what PAUSE stopped; answered by UNPAUSED */

  /* PID 1 -> host */
  SBX_MSG_READY = 64, /* a: Landlock ABI in force (0: none); b: enum
                         sbx_ready_flag; fds: workspace folder, root folder */
  SBX_MSG_FAIL,       /* a: enum sbx_setup, b: errno; nothing follows. payload:
                         the path or call at fault, NUL-terminated */
  SBX_MSG_SPAWNED,    /* a: pid inside */
  SBX_MSG_REFUSED,    /* a: enum sbx_spawn_stage, b: errno; no EXIT follows */
  SBX_MSG_EXIT,       /* a: wait status; payload: struct sbx_usage */
  SBX_MSG_EMPTY,
  SBX_MSG_CONNECTED = 90, /* a: 0 and the socket as fd, or errno */
  SBX_MSG_LISTENING = 91, /* the same */
  SBX_MSG_TERMINAL = 100, /* fd: master of the command's terminal; before
                             SPAWNED or REFUSED */
  SBX_MSG_LIMIT = 101,    /* a: enum sbx_limit that the command reached; before
                             its EXIT. payload: uint64_t, the limit */
  SBX_MSG_PAUSED = 102,   /* a: 1 = by the control group's freezer */
  SBX_MSG_UNPAUSED = 103  /* also for a PAUSE before it that was not reached; so
                             does EMPTY, since END of ALL ends a pause */
};

enum sbx_limit {
  SBX_LIMIT_MEMORY = 1, /* the command was killed */
  SBX_LIMIT_WORKSPACE,  /* the command was killed */
  SBX_LIMIT_FILE_SIZE,  /* the kernel refused, with SIGXFSZ */
  SBX_LIMIT_PROCESSES   /* the kernel refused to start more */
};

enum sbx_spawn_flag {
  SBX_SPAWN_STDIN_FD = 1, /* else stdin is /dev/null */
  SBX_SPAWN_MEMFD = 2,
  SBX_SPAWN_TERMINAL = 0x100 /* no stdin, stdout and stderr come with it: PID 1
                                makes a terminal. b: columns | rows << 16 */
};

enum sbx_spawn_stage { SBX_STAGE_REQUEST = 1, SBX_STAGE_CWD, SBX_STAGE_FORK, SBX_STAGE_EXEC };

enum sbx_scope {
  SBX_SCOPE_PROCESS = 0, /* the command's own process */
  SBX_SCOPE_TREE,        /* its session id, its descendants, the holders of its
                            stdout or stderr */
  SBX_SCOPE_ALL          /* every process but PID 1 */
};

enum sbx_ready_flag {
  SBX_READY_IDMAPPED = 1,
  SBX_READY_OWN_PROC = 2,
  SBX_READY_NOTIFIER = 4, /* chmod with set-id bits is supervised */

  /* SBX_LEVEL_LANDLOCK: commands have the ids of other processes of the host */
  SBX_READY_SHARED_IDS = 0x100,

  SBX_READY_OVERLAY = 1 << 12, /* the workspace lies over LOWER */

  SBX_READY_CGROUP_MEMORY = 0x10000, /* the limit is the control group's */
  SBX_READY_CGROUP_PIDS = 0x20000,
  SBX_READY_CGROUP_CPU = 0x40000,
  SBX_READY_FREEZER = 0x80000 /* PAUSE uses the control group's freezer */
};

struct sbx_usage {
  uint64_t user_us;
  uint64_t system_us;
  uint64_t max_rss_bytes;
};

#endif
