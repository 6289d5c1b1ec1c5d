//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fleet/internal/runner/sandbox"
	"fleet/internal/waittest"
)

// user is the user that runs the attacker's program.
type user struct {
	name       string
	credential *syscall.Credential // nil means the user who runs the tests
}

const nobody = 65534

// users returns root, if the tests run as root, and an ordinary user.
func users() []user {
	if os.Geteuid() == 0 {
		return []user{{"root", nil}, {"nobody", &syscall.Credential{Uid: nobody, Gid: nobody}}}
	}
	return []user{{"user", nil}}
}

// attackEnvironment is the environment of an attack: the attacker's directory, and the rest of the machine.
type attackEnvironment struct {
	t          *testing.T
	user       user
	ownDir     string // the directory that the attacker may write
	outsideDir string // the directory that the attacker must not access
	attacker   string // path of the attacker's program
	victim     *os.Process
	policy     sandbox.Policy
}

// systemPaths lists the directories that every program may read.
var systemPaths = []string{"/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", "/sys"}

func newAttackEnvironment(t *testing.T, u user) *attackEnvironment {
	t.Helper()
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "arena-*") // other users cannot enter t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	a := &attackEnvironment{t: t, user: u, ownDir: filepath.Join(dir, "own"), outsideDir: filepath.Join(dir, "outside"), attacker: filepath.Join(dir, "program", "attacker")}
	for _, d := range []string{dir, a.ownDir, a.outsideDir, filepath.Dir(a.attacker)} {
		require.NoError(t, os.MkdirAll(d, 0o755))
		require.NoError(t, os.Chmod(d, 0o755))
		a.chownToAttacker(d)
	}
	// Another process makes the copy. A program cannot be executed while a fork of this process has its file open for
	// writing.
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, exec.Command("cp", self, a.attacker).Run())
	require.NoError(t, os.Chmod(a.attacker, 0o755))
	a.policy = sandbox.Policy{Mounts: true, Write: []string{a.ownDir}, Read: append([]string{filepath.Dir(a.attacker)}, systemPaths...)}
	// The victim is a process of the same user, like the server, the supervisor, or another agent's program.
	a.victim, err = os.StartProcess("/bin/sleep", []string{"sleep", "3600"}, &os.ProcAttr{
		Env: []string{"SECRET=hidden"}, Sys: &syscall.SysProcAttr{Credential: u.credential, Setpgid: true},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.victim.Kill(); _, _ = a.victim.Wait() })
	return a
}

// chownToAttacker makes the attacker's user the owner of the file.
func (a *attackEnvironment) chownToAttacker(path string) {
	a.t.Helper()
	if a.user.credential != nil {
		require.NoError(a.t, os.Chown(path, int(a.user.credential.Uid), int(a.user.credential.Gid)))
	}
}

// createFile creates a file that the attacker's user owns.
func (a *attackEnvironment) createFile(path, content string) string {
	a.t.Helper()
	require.NoError(a.t, os.WriteFile(path, []byte(content), 0o600))
	a.chownToAttacker(path)
	return path
}

// attack makes the attack. It returns the attacker's output, and whether the attack succeeded.
func (a *attackEnvironment) attack(confined bool, args ...string) (output string, success bool) {
	a.t.Helper()
	r, w, err := os.Pipe()
	require.NoError(a.t, err)
	attr := &os.ProcAttr{
		Dir: a.ownDir, Env: []string{"PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}, Files: []*os.File{nil, w, w},
		Sys: &syscall.SysProcAttr{Credential: a.user.credential, Setpgid: true},
	}
	argv := append([]string{"attacker", "attack"}, args...)
	var p *os.Process
	if confined {
		p, err = sandbox.Start(a.policy, a.attacker, argv, attr)
	} else {
		p, err = os.StartProcess(a.attacker, argv, attr)
	}
	require.NoError(a.t, w.Close())
	require.NoError(a.t, err)
	state, err := p.Wait()
	require.NoError(a.t, err)
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // ends the attacker's children
	a.endProxy()
	_ = r.SetReadDeadline(time.Now().Add(waittest.Limit))
	out, _ := io.ReadAll(r)
	require.NotContains(a.t, string(out), "panic", "the attack has a bug")
	require.NotContains(a.t, string(out), "prepare: ", "the attack could not be prepared")
	return strings.TrimSpace(string(out)), state.Success()
}

// attackConfined makes the attack in a sandbox with the policy of a.
func (a *attackEnvironment) attackConfined(args ...string) (output string, success bool) {
	a.t.Helper()
	return a.attack(true, args...)
}

// endProxy ends the proxy of the last attack, if there is one. The proxy is a child of this process.
func (a *attackEnvironment) endProxy() {
	if len(a.policy.Network.Allowed()) == 0 {
		return
	}
	// The proxy's command line contains the addresses, which no other test uses.
	list, err := json.Marshal(a.policy.Network.Allowed())
	require.NoError(a.t, err)
	entries, err := os.ReadDir("/proc")
	require.NoError(a.t, err)
	for _, e := range entries {
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if pid, nerr := strconv.Atoi(e.Name()); err == nil && nerr == nil && string(line) == "fleet-proxy\x00"+string(list)+"\x00" {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
	}
}

// requireRepelled requires that the attack succeeds without a sandbox and fails in one.
func (a *attackEnvironment) requireRepelled(args ...string) {
	a.t.Helper()
	output, success := a.attack(false, args...)
	require.True(a.t, success, "%v must succeed without a sandbox: %s", args, output)
	a.requireRefused(args...)
}

// requireRefused requires that the attack fails in a sandbox. It is for attacks that may also fail without a sandbox.
func (a *attackEnvironment) requireRefused(args ...string) {
	a.t.Helper()
	output, success := a.attackConfined(args...)
	require.False(a.t, success, "%v must fail in the sandbox: %s", args, output)
}

// requireAllowed requires that the action succeeds in the sandbox, because it is not an attack.
func (a *attackEnvironment) requireAllowed(args ...string) {
	a.t.Helper()
	output, success := a.attackConfined(args...)
	require.True(a.t, success, "%v must succeed in the sandbox: %s", args, output)
}

// skipWithoutMounts skips the test for a user who cannot create mounts.
func (a *attackEnvironment) skipWithoutMounts() {
	a.t.Helper()
	if a.user.name != "root" {
		a.t.Skip("only root can create mounts")
	}
	if err := exec.Command("unshare", "--mount", "true").Run(); err != nil {
		a.t.Skip("root cannot create mounts here: ", err)
	}
}

// forEachUser runs the test as each user.
func forEachUser(t *testing.T, test func(t *testing.T, a *attackEnvironment)) {
	t.Parallel()
	for _, u := range users() {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			test(t, newAttackEnvironment(t, u))
		})
	}
}

func TestFiles(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		secret := a.createFile(filepath.Join(a.outsideDir, "secret"), "hidden")
		for _, how := range []string{"read", "symlink", "append", "link", "truncate"} {
			a.requireRepelled(how, secret)
			_ = os.Remove(filepath.Join(a.ownDir, "linked"))
		}
		a.requireRepelled("list", a.outsideDir)
		a.requireRepelled("create", filepath.Join(a.outsideDir, "new"))
		a.requireRepelled("replace", a.createFile(filepath.Join(a.outsideDir, "replaced"), "whole"))
		require.NoError(t, os.Remove(filepath.Join(a.outsideDir, "new")))

		protected := a.createFile(filepath.Join(a.outsideDir, "kept"), "")
		a.requireRefused("remove", protected)
		require.FileExists(t, protected)

		ownFile := a.createFile(filepath.Join(a.ownDir, "mine-too"), "")
		a.requireAllowed("append", ownFile)
		a.requireAllowed("read", ownFile)
		a.requireAllowed("create", filepath.Join(a.ownDir, "new"))
		a.requireAllowed("replace", filepath.Join(a.ownDir, "new"))
		a.requireAllowed("read", "/etc/passwd")
		a.requireRefused("append", a.attacker)
	})
}

// TestModes checks that a program can change the mode, owner and times of its own files, and that root's programs cannot change those
// of other files. Landlock does not restrict these changes. Mounts do, but an ordinary user cannot create mounts.
func TestModes(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		ownFile := a.createFile(filepath.Join(a.ownDir, "mine-too"), "")
		for _, how := range []string{"mode", "owner", "times"} {
			a.requireAllowed(how, ownFile)
		}
		a.policy.Write = []string{ownFile}
		a.requireAllowed("mode", ownFile)
		a.policy.Write = []string{a.ownDir}
		a.skipWithoutMounts()
		outsideFile := a.createFile(filepath.Join(a.outsideDir, "theirs"), "")
		for _, how := range []string{"mode", "owner", "times"} {
			a.requireRepelled(how, outsideFile)
			a.requireRepelled(how, a.outsideDir)
		}
		a.requireRefused("mode", "/etc/passwd")
		a.requireRefused("mode", a.attacker)
	})
}

// TestWatch checks that a program cannot watch files in a hidden directory, except those that it may read.
func TestWatch(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		a.skipWithoutMounts()
		outsideFile := a.createFile(filepath.Join(a.outsideDir, "theirs"), "")
		dir := filepath.Join(a.outsideDir, "shown")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		shown := a.createFile(filepath.Join(dir, "file"), "text")
		single := a.createFile(filepath.Join(a.outsideDir, "single"), "text")
		a.policy.Hide = []string{a.outsideDir}
		a.policy.Read = append(a.policy.Read, dir, single)
		a.requireRepelled("watch", outsideFile)
		for _, path := range []string{dir, shown, single} {
			a.requireAllowed("watch", path)
		}
		a.requireAllowed("read", shown)
		a.requireAllowed("read", single)
		a.requireRefused("truncate", shown)
		a.policy.Write = append(a.policy.Write, dir)
		a.requireAllowed("truncate", shown)
		a.policy.Read = append(a.policy.Read, filepath.Dir(a.outsideDir)) // then the directory is not hidden
		a.requireAllowed("read", outsideFile)
	})
}

// TestAttributes checks that no program can change extended attributes, which Landlock does not restrict.
func TestAttributes(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		outsideFile := a.createFile(filepath.Join(a.outsideDir, "theirs"), "")
		for _, how := range []string{"attribute", "attribute at a descriptor"} {
			a.requireRepelled(how, outsideFile)
			output, _ := a.attackConfined(how, outsideFile)
			require.Contains(t, output, "operation not supported", "programs must see a file system without attributes")
		}
		a.policy.Read = append(a.policy.Read, outsideFile)
		a.requireRepelled("flags", outsideFile)
	})
}

func TestOtherProcesses(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		pid := strconv.Itoa(a.victim.Pid)
		a.requireRepelled("read", "/proc/"+pid+"/environ")
		a.requireRepelled("follow", "/proc/"+pid+"/cwd")
		a.requireRepelled("memory", pid)
		a.requireRepelled("signal", pid, "0")
		a.requireRepelled("signal", pid, strconv.Itoa(int(syscall.SIGCONT)))
		a.requireRepelled("limit", pid)
		a.requireRepelled("tag")
		a.requireRepelled("old tag")
		a.requireRepelled("renice", pid)
		a.requireRepelled("affinity", pid)
		a.requireRefused("trace", pid)
		a.requireRefused("pidfd", pid)
		a.requireRefused("signal", pid, strconv.Itoa(int(syscall.SIGSTOP)))
		a.requireRefused("signal", pid, strconv.Itoa(int(syscall.SIGKILL)))
		a.requireRefused("signal", strconv.Itoa(os.Getpid()), strconv.Itoa(int(syscall.SIGSTOP))) // the parent process
		require.NoError(t, a.victim.Signal(syscall.Signal(0)), "the victim must still run")
	})
}

// listen listens until the end of the test.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// listenPacket is like listen, for networks of packets.
func listenPacket(t *testing.T, network, address string) net.PacketConn {
	t.Helper()
	c, err := net.ListenPacket(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestSockets(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		path := filepath.Join(a.outsideDir, "socket")
		abstract := fmt.Sprintf("@fleet-%d-%s", os.Getpid(), a.user.name)
		for _, address := range []string{path, abstract} {
			listen(t, "unix", address)
			if address == path {
				a.chownToAttacker(path)
			}
			a.requireRepelled("dial", "unix", address)
		}
		datagrams := filepath.Join(a.outsideDir, "datagrams")
		listenPacket(t, "unixgram", datagrams)
		a.chownToAttacker(datagrams)
		tcp := listen(t, "tcp", "127.0.0.1:0")
		udp := listenPacket(t, "udp", "127.0.0.1:0")
		a.requireAllowed("dial", "tcp", tcp.Addr().String())
		a.requireAllowed("dial", "udp", udp.LocalAddr().String())
		requirePairs := func() {
			for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_SEQPACKET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK} {
				a.requireAllowed("pair", strconv.Itoa(kind), datagrams)
			}
			a.requireRepelled("smuggle", datagrams)
		}
		requirePairs()
		for _, family := range []int{unix.AF_PACKET, unix.AF_VSOCK, unix.AF_ALG, unix.AF_BLUETOOTH} {
			a.requireRefused("family", strconv.Itoa(family))
		}

		a.policy.Network = sandbox.Offline
		a.requireRepelled("dial", "tcp", tcp.Addr().String())
		a.requireRepelled("dial", "udp", udp.LocalAddr().String())
		a.requireRefused("multipath")
		a.requireRefused("dial", "tcp", "[::1]:1")
		requirePairs()
	})
}

func TestPrivileges(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		a.requireRepelled("setuid")
		a.requireRefused("namespace")
		a.requireRefused("chroot")
		a.requireRefused("ring")
		a.requireRefused("keyring")
		a.requireRefused("descriptors")
		if a.user.name == "root" { // an ordinary user cannot read these anyway
			a.requireRefused("read", "/dev/mem")
			a.requireRefused("append", "/proc/sys/kernel/core_pattern")
		}
	})
}

// TestAllow checks that a program can connect to the allowed addresses through the proxy, and to nothing else.
func TestAllow(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		if _, err := sandbox.Choose("", sandbox.Allow()); err != nil {
			t.Skip(err)
		}
		startEchoServer := func() string {
			l := listen(t, "tcp", "127.0.0.1:0")
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = io.CopyN(c, c, 6)
					_ = c.Close()
				}
			}()
			return l.Addr().String()
		}
		allowed, forbidden := startEchoServer(), startEchoServer()
		_, port, err := net.SplitHostPort(allowed)
		require.NoError(t, err)
		udp := listenPacket(t, "udp", "127.0.0.1:0")
		a.policy.Network = sandbox.Allow(allowed, "localhost:"+port)
		for _, address := range []string{allowed, "LOCALHOST:" + port} {
			output, success := a.attackConfined("proxy", address)
			require.True(t, success, output)
			require.Equal(t, "hello", output)
		}
		output, success := a.attackConfined("proxy", forbidden)
		require.False(t, success)
		require.Contains(t, output, "403 Forbidden")
		a.requireRefused("proxy", "[::ffff:127.0.0.1]:"+port)
		a.requireRepelled("dial", "tcp", allowed)
		a.requireRepelled("dial", "tcp", forbidden)
		a.requireRefused("dial", "tcp", "192.0.2.1:80")
		_, _ = a.attackConfined("dial", "udp", udp.LocalAddr().String()) // the program can only send to a port of its own network
		require.NoError(t, udp.SetReadDeadline(time.Now()))
		_, _, err = udp.ReadFrom(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "no datagram must arrive")
		a.policy.Network = sandbox.Allow()
		a.requireRefused("proxy", allowed)
	})
}

// TestStatus checks that a confined process has no capabilities and cannot gain any. It also checks the fields of its status by
// which other processes can recognise a confined process.
func TestStatus(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		out := filepath.Join(a.ownDir, "status")
		p, err := sandbox.Start(a.policy, "/bin/sh", []string{"sh", "-c", "cat /proc/self/status /proc/self/limits >status"}, &os.ProcAttr{
			Dir: a.ownDir, Sys: &syscall.SysProcAttr{Credential: a.user.credential},
		})
		require.NoError(t, err)
		_, err = p.Wait()
		require.NoError(t, err)
		b, err := os.ReadFile(out)
		require.NoError(t, err)
		for _, want := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
			require.Contains(t, string(b), want)
		}
		require.Regexp(t, `Max core file size +0 +0 `, string(b))
		if a.user.name == "root" {
			require.Contains(t, string(b), "CapBnd:\t0000000000000000")
		}
	})
}

// TestProcessTable checks that an ordinary user cannot fill the process table. The kernel exempts root from the limit.
func TestProcessTable(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		if a.user.name == "root" {
			t.Skip("the kernel does not count processes of root: only a cgroup limits them")
		}
		a.policy.Processes = 100
		output, success := a.attackConfined("fork", "300")
		require.False(t, success)
		require.Contains(t, output, "resource temporarily unavailable")
	})
}

// TestLimits checks that a program cannot use more than Policy.Limits.
func TestLimits(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		for how, amounts := range map[string][2]string{"allocate": {"16", "1000"}, "grow": {"1", "20"}, "open": {"10", "300"}, "spin": {"0", "2"}} {
			a.policy.Limits = sandbox.Limits{}
			a.requireAllowed(how, amounts[1])
			a.policy.Limits = sandbox.Limits{Memory: 500 << 20, CPU: time.Second, FileSize: 10 << 20, Descriptors: 200}
			a.requireRefused(how, amounts[1])
			a.requireAllowed(how, amounts[0])
		}
	})
}

// TestRefusals checks the errors for programs that cannot be started or confined.
func TestRefusals(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		attr := &os.ProcAttr{Dir: a.ownDir, Sys: &syscall.SysProcAttr{Credential: a.user.credential}}
		_, err := sandbox.Start(a.policy, filepath.Join(a.ownDir, "absent"), []string{"absent"}, attr)
		require.ErrorContains(t, err, "no such file or directory")
		a.createFile(filepath.Join(a.outsideDir, "program"), "#!/bin/sh\n")
		require.NoError(t, os.Chmod(filepath.Join(a.outsideDir, "program"), 0o755))
		_, err = sandbox.Start(a.policy, filepath.Join(a.outsideDir, "program"), []string{"program"}, attr)
		require.ErrorContains(t, err, "permission denied")
		a.policy.Write = append(a.policy.Write, filepath.Join(a.ownDir, "absent"))
		_, err = sandbox.Start(a.policy, "/bin/true", []string{"true"}, attr)
		require.ErrorContains(t, err, "absent: no such file")
	})
}

// TestLinks checks that no program starts if there is a symbolic link in a path that it may write.
func TestLinks(t *testing.T) {
	forEachUser(t, func(t *testing.T, a *attackEnvironment) {
		a.requireAllowed("create", filepath.Join(a.ownDir, "new"))
		link := filepath.Join(a.ownDir, "link")
		require.NoError(t, os.Symlink(a.outsideDir, link))
		require.NoError(t, os.Mkdir(filepath.Join(a.outsideDir, "deep"), 0o755))
		a.createFile(filepath.Join(a.outsideDir, "file"), "")
		for _, path := range []string{link, filepath.Join(link, "deep"), filepath.Join(link, "file")} {
			a.policy.Write = []string{a.ownDir, path}
			_, err := sandbox.Start(a.policy, "/bin/true", []string{"true"}, &os.ProcAttr{Dir: a.ownDir})
			require.ErrorContains(t, err, "symbolic link")
			_, err = sandbox.OpenRoot(path)
			require.ErrorContains(t, err, "symbolic link")
		}
	})
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode    sandbox.Mode
		network sandbox.Network
		err     string
	}{
		{"none", "none", "needs a sandbox"},
		{"jail", "", "auto, landlock or none"},
		{"", "some", "full, none, or a list"},
		{"none", sandbox.Allow("a:1"), "needs a sandbox"},
		{"", sandbox.Allow("example.com"), "a host and a port"},
		{"", sandbox.Allow("*.example.com:443"), "a host and a port"},
		{"", sandbox.Allow("example.com:0"), "a host and a port"},
	} {
		_, err := sandbox.Choose(c.mode, c.network)
		require.ErrorContains(t, err, c.err)
	}
	m, err := sandbox.Choose("none", "full")
	require.NoError(t, err)
	require.Equal(t, sandbox.None, m)
	if err := sandbox.Available(); err != nil {
		m, err = sandbox.Choose("", "")
		require.NoError(t, err)
		require.Equal(t, sandbox.None, m)
		_, err = sandbox.Choose("landlock", "")
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		_, err = sandbox.Choose("", "none")
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		return
	}
	m, err = sandbox.Choose("", "none")
	require.NoError(t, err)
	require.Equal(t, sandbox.Landlock, m)
}

// BenchmarkStart measures how much time the sandbox adds to the start of a program.
func BenchmarkStart(b *testing.B) {
	if err := sandbox.Available(); err != nil {
		b.Skip(err)
	}
	for name, mounts := range map[string]bool{"confined": false, "confined, with mounts": true} {
		b.Run(name, func(b *testing.B) {
			policy := sandbox.Policy{Write: []string{b.TempDir()}, Read: systemPaths, Mounts: mounts}
			for b.Loop() {
				p, err := sandbox.Start(policy, "/bin/true", []string{"true"}, &os.ProcAttr{})
				require.NoError(b, err)
				_, _ = p.Wait()
			}
		})
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, exec.Command("/bin/true").Run())
		}
	})
}
