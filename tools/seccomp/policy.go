package main

// A verdict is what becomes of a system call.
type verdict uint32

// The values are those of seccomp(2). Kill is SIGSYS for the whole process.
const (
	allow  verdict = 0x7fff0000
	refuse verdict = 0x00050000 | 1  // EPERM: there, and not for you
	absent verdict = 0x00050000 | 38 // ENOSYS: not there, so that libc does without
	kill   verdict = 0x80000000
)

// A variant is what a run is allowed beyond the least.
type variant struct {
	process bool // the capability process: fork
	unix    bool // no path of the host is bound: sockets by path reach nobody
}

// A group holds system calls that get one verdict for one reason. What no group
// and no check names is absent.
type group struct {
	verdict verdict
	why     string
	calls   string
}

// groups is the policy, but for the calls that checks looks into. Every name of
// the kernel's tables for either architecture stands here or there: a test
// holds that, so that nothing is left out by oversight.
func groups(v variant) []group {
	fork := refuse
	if v.process {
		fork = allow
	}
	return []group{
		{fork, "the capability process; on arm64 there is clone alone", `
			fork vfork`},

		{allow, "files: the mounts say which, and what may be done with them", `
			read write close lseek pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2
			access faccessat faccessat2 stat fstat lstat newfstatat fstatat statx statfs fstatfs
			getcwd chdir fchdir rename renameat renameat2 mkdir mkdirat rmdir link linkat
			unlink unlinkat symlink symlinkat readlink readlinkat chown fchown lchown fchownat
			umask utime utimes utimensat futimesat truncate ftruncate fallocate
			fsync fdatasync sync syncfs sync_file_range readahead fadvise64 cachestat
			getdents getdents64 flock fcntl dup dup2 dup3 close_range pipe pipe2
			sendfile splice tee vmsplice copy_file_range
			setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
			removexattr lremovexattr fremovexattr setxattrat getxattrat listxattrat removexattrat
			inotify_init inotify_init1 inotify_add_watch inotify_rm_watch`},
		{allow, "waiting", `
			poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait
			epoll_pwait2 eventfd eventfd2 signalfd signalfd4`},
		{allow, "memory of one's own", `
			brk mmap mprotect munmap mremap msync mincore madvise mlock mlock2 munlock mlockall
			munlockall memfd_create membarrier pkey_mprotect pkey_alloc pkey_free map_shadow_stack mseal`},
		{allow, "where memory lies, of one's own: numeric libraries ask", `
			mbind get_mempolicy set_mempolicy`},
		{allow, "System V and POSIX objects: the ipc namespace is the run's own", `
			shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
			mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr`},
		{allow, "another program in the place of this one: it is in the same sandbox", `
			execve execveat`},
		{allow, "ending, and waiting for those that end", `
			exit exit_group wait4 waitid restart_syscall`},
		{allow, "signals: the pid namespace says whom they reach", `
			kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal
			rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend
			sigaltstack pause alarm`},
		{allow, "threads", `
			futex futex_wait futex_wake futex_waitv futex_requeue set_robust_list get_robust_list
			set_tid_address rseq arch_prctl getcpu gettid sched_yield`},
		{allow, "ids and sessions: without capabilities only one's own", `
			getpid getppid getpgid getpgrp setpgid getsid setsid getuid geteuid getgid getegid
			getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid
			setfsuid setfsgid setgroups capget capset`},
		{allow, "limits and priorities: without capabilities they only go down", `
			getrlimit setrlimit prlimit64 getrusage times getpriority setpriority ioprio_get ioprio_set
			sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_setattr
			sched_getattr sched_get_priority_max sched_get_priority_min sched_rr_get_interval
			sched_setaffinity sched_getaffinity`},
		{allow, "reading the clocks", `
			time gettimeofday clock_gettime clock_getres nanosleep clock_nanosleep getitimer setitimer
			timer_create timer_settime timer_gettime timer_getoverrun timer_delete
			timerfd_create timerfd_settime timerfd_gettime`},
		{allow, "sockets that exist: socket and socketpair say which may", `
			connect accept accept4 bind listen getsockname getpeername recvfrom recvmsg recvmmsg
			shutdown setsockopt getsockopt`},
		{allow, "what the machine is, and chance", `
			uname sysinfo getrandom`},
		{allow, "confining oneself further: the stricter of two filters wins", `
			prctl seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self`},
		{allow, "the kernel's own trampoline, for a host that traces the tool", `
			uretprobe`},

		{absent, "its flags are in memory, where a filter cannot look: libc takes clone, open", `
			clone3 openat2`},
		{refuse, "namespaces: a new one gives its maker capabilities, and the kernel's bugs behind them", `
			unshare setns`},
		{refuse, "mounts, old and new: the sandbox is made of them", `
			mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick open_tree open_tree_attr
			move_mount mount_setattr`},
		{refuse, "files without their path: past every mount", `
			name_to_handle_at open_by_handle_at`},
		{refuse, "into other processes: bwrap's init has the tool's uid", `
			ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp move_pages migrate_pages`},
		{refuse, "calls that no filter sees", `
			io_uring_setup io_uring_enter io_uring_register`},
		{refuse, "code in the kernel, and a clock for its bugs", `
			bpf perf_event_open userfaultfd`},
		{refuse, "keys: their rings are not namespaced", `
			add_key request_key keyctl`},
		{refuse, "modules and other kernels", `
			init_module finit_module delete_module kexec_load kexec_file_load`},
		{refuse, "the machine's clock", `
			settimeofday clock_settime adjtimex clock_adjtime`},
		{refuse, "the machine's state", `
			reboot swapon swapoff acct quotactl quotactl_fd sethostname setdomainname vhangup syslog
			fanotify_init fanotify_mark nfsservctl lookup_dcookie`},
		{refuse, "the processor's ports, and segments that 16-bit programs had", `
			ioperm iopl modify_ldt`},

		{absent, "asynchronous I/O before io_uring: nothing here needs it", `
			io_setup io_destroy io_getevents io_pgetevents io_submit io_cancel`},
		{absent, "other processes' memory, and memory that the limits do not see", `
			process_madvise process_mrelease memfd_secret remap_file_pages set_mempolicy_home_node`},
		{absent, "what the kernel's security and mounts are", `
			lsm_get_self_attr lsm_set_self_attr lsm_list_modules statmount listmount`},
		{absent, "obsolete, or never there", `
			uselib ustat sysfs _sysctl create_module get_kernel_syms query_module getpmsg putpmsg
			afs_syscall tuxcall security vserver epoll_ctl_old epoll_wait_old
			set_thread_area get_thread_area`},
		{absent, "names of the table that are of 32-bit machines alone", `
			arch_specific_syscall clock_gettime64 clock_settime64 clock_adjtime64 clock_getres_time64
			clock_nanosleep_time64 timer_gettime64 timer_settime64 timerfd_gettime64 timerfd_settime64
			utimensat_time64 pselect6_time64 ppoll_time64 io_pgetevents_time64 recvmmsg_time64
			mq_timedsend_time64 mq_timedreceive_time64 semtimedop_time64 rt_sigtimedwait_time64
			futex_time64 sched_rr_get_interval_time64`},
	}
}

// A test holds the low 32 bits of an argument, after the mask, against values.
// The kernel looks at no more than these in any argument tested here; comparing
// all 64 is how TIOCSTI got past a filter (CVE-2019-10063).
type test struct {
	arg    int
	mask   uint32
	not    bool // none of the values
	values []uint32
}

func is(arg int, values ...uint32) test    { return test{arg, ^uint32(0), false, values} }
func isNot(arg int, values ...uint32) test { return test{arg, ^uint32(0), true, values} }
func without(arg int, bits uint32) test    { return test{arg, bits, false, []uint32{0}} }
func with(arg int, bits uint32) test       { return test{arg, bits, false, []uint32{bits}} }

// kind is the type of a socket without SOCK_CLOEXEC and SOCK_NONBLOCK.
func kind(arg int, values ...uint32) test { return test{arg, 0xf, false, values} }

// A check allows a call if all tests of any of its lines hold, and refuses it
// otherwise.
type check struct {
	call  string
	lines [][]test
}

// The constants of the kernel's headers, the same on both architectures.
const (
	cloneThread     = 0x00010000
	cloneNamespaces = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000

	afUnix, afInet, afInet6, afNetlink           = 1, 2, 10, 16
	sockStream, sockDgram, sockSeqpacket         = 1, 2, 5
	ipDefault, ipTCP, ipUDP, netlinkRoute        = 0, 6, 17, 0
	msgFastopen                                  = 0x20000000
	tiocsti, tioclinux, tiocsetd                 = 0x5412, 0x541c, 0x5423
	oCreat, oTmpfile                             = 0o100, 0o20000000 // of O_TMPFILE the bit that is not O_DIRECTORY
	setID                                        = 0o6000            // S_ISUID, S_ISGID
	device                                       = 0o020000          // the bit that S_IFCHR and S_IFBLK have and files, pipes and sockets have not
	perLinux, perAsk                      uint32 = 0, 0xffffffff
)

// checks is the policy for calls whose arguments decide.
func checks(v variant) []check {
	// No namespaces. Without the capability process only threads: pthread_create
	// says CLONE_THREAD, and fork, vfork and posix_spawn do not.
	clone := []test{without(0, cloneNamespaces)}
	if !v.process {
		clone = append(clone, with(0, cloneThread))
	}

	// TCP and UDP; netlink to read interfaces and addresses, which getifaddrs,
	// getaddrinfo and node do. Not raw and packet sockets, not the families whose
	// modules socket(2) would load, and not vsock, which leads to the machine's
	// own host past every namespace.
	socket := [][]test{
		{is(0, afInet, afInet6), kind(1, sockStream, sockDgram), is(2, ipDefault, ipTCP, ipUDP)},
		{is(0, afNetlink), is(2, netlinkRoute)},
	}
	// A pair is of this process. But a datagram socket of a pair can still be
	// connected elsewhere, and send to any path.
	pair := []test{is(0, afUnix), kind(1, sockStream, sockSeqpacket)}
	if v.unix {
		socket = append(socket, []test{is(0, afUnix)})
		pair = []test{is(0, afUnix)}
	}

	// No file that lends its owner's or group's rights, and no device. A tool
	// could leave the first in a directory that is bound: nosuid is of our mount,
	// not of the host's.
	creates := func(flags, mode int) [][]test {
		return [][]test{{without(flags, oCreat|oTmpfile)}, {without(mode, setID)}}
	}
	one := func(t ...test) [][]test { return [][]test{t} }

	return []check{
		{"clone", one(clone...)},
		{"socket", socket},
		{"socketpair", one(pair...)},

		// TCP Fast Open connects without connect(2).
		{"sendto", one(without(3, msgFastopen))},
		{"sendmsg", one(without(2, msgFastopen))},
		{"sendmmsg", one(without(3, msgFastopen))},

		// Typing into the caller's terminal; loading a line discipline.
		{"ioctl", one(isNot(1, tiocsti, tioclinux, tiocsetd))},

		{"open", creates(1, 2)},
		{"openat", creates(2, 3)},
		{"creat", one(without(1, setID))},
		{"chmod", one(without(1, setID))},
		{"fchmod", one(without(1, setID))},
		{"fchmodat", one(without(2, setID))},
		{"fchmodat2", one(without(2, setID))},
		{"mknod", one(without(1, setID|device))},
		{"mknodat", one(without(2, setID|device))},

		// Other personalities turn protections off, as of the zero page.
		{"personality", one(is(0, perLinux, perAsk))},
	}
}
