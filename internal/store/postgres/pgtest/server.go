package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// startTimeout is how long a server may take to answer after its start. It is long because the machine may be busy with
// other tests.
const startTimeout = 10 * time.Minute

// superuser is the name of the role that initdb creates.
const superuser = "fleet"

var errMissing = errors.New("Postgres is not installed: `make test-postgres` installs it, or run `apt-get install postgresql`") //nolint:staticcheck // a name begins it

// Server is a Postgres server that listens on a Unix socket in its own directory.
type Server struct {
	Dir string // the directory of the socket and the data

	bin       string
	settings  []string // settings that override the options
	smallDisk bool     // Dir is a small file system of its own
	cmd       *exec.Cmd
	done      chan struct{} // closed when the server has ended

	mu       sync.Mutex
	reusable []string // databases that can be used by another test
}

// options make the server fast. They do not protect its data against a crash of the machine. authentication_timeout is short
// because a Link can hold back a client's first message. After one of the server's processes has crashed, the server answers no
// client until all clients that have connected since then have sent their first message, or authentication_timeout has passed.
var options = []string{
	"listen_addresses=", "fsync=off", "full_page_writes=off", "max_connections=400", "shared_buffers=128MB", "max_locks_per_transaction=256",
	"max_wal_size=4GB", "autovacuum_naptime=10s", "log_min_messages=warning", "wal_level=replica", "max_wal_senders=4",
	"authentication_timeout=15s",
}

// Start creates a server in a new directory and starts it. bin is the directory of Postgres's programs; "" means that
// Start finds them. settings such as "fsync=on" override the options that make tests fast.
func Start(bin string, settings ...string) (*Server, error) {
	return startServer(&Server{bin: bin, settings: settings})
}

func startServer(s *Server) (_ *Server, err error) {
	if s.bin == "" {
		if s.bin = findBin(); s.bin == "" {
			return nil, errMissing
		}
	}
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.removeDir())
		}
	}()
	var out bytes.Buffer
	initdb := s.Command("initdb", "-D", s.data(), "-U", superuser, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
	initdb.Stdout, initdb.Stderr = &out, &out
	if err := initdb.Run(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out.Bytes())
	}
	return s, s.Restart()
}

// makeDir creates the server's directory, which belongs to the user that the server runs as.
func (s *Server) makeDir() (err error) {
	if s.Dir, err = os.MkdirTemp("", "fleet-pg"); err != nil {
		return err
	}
	if s.smallDisk {
		if err := mount(s.Dir); err != nil {
			return errors.Join(err, os.Remove(s.Dir))
		}
	}
	if c := credential(); c != nil {
		if err := os.Chown(s.Dir, int(c.Uid), int(c.Gid)); err != nil {
			return errors.Join(err, s.removeDir())
		}
	}
	return nil
}

func (s *Server) removeDir() error {
	if s.smallDisk {
		return errors.Join(unmount(s.Dir), os.Remove(s.Dir))
	}
	return os.RemoveAll(s.Dir)
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// Socket returns the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.Dir, ".s.PGSQL.5432") }

// Restart starts the server, which must have ended or never run.
func (s *Server) Restart() error {
	args := []string{"-D", s.data(), "-k", s.Dir}
	for _, o := range append(slices.Clone(options), s.settings...) {
		args = append(args, "-c", o)
	}
	s.cmd = s.Command("postgres", args...)
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT // ends the server when this program is killed
	s.done = make(chan struct{})
	started := make(chan error, 1)
	done := s.done
	go func() {
		runtime.LockOSThread() // Pdeathsig is sent when the thread ends
		defer runtime.UnlockOSThread()
		defer close(done)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	return s.awaitReady()
}

// awaitReady waits until the server answers. It returns an error with the server's log if the server has ended.
func (s *Server) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.done:
			log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
			return fmt.Errorf("the Postgres server has ended: %s", log)
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond): // there is no signal that the server is ready
		}
	}
}

// PID returns the id of the server's main process, the parent of its other processes.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill ends the server without a checkpoint, as a crash does, and waits until it has ended. Restart starts it again.
func (s *Server) Kill() error {
	err := s.cmd.Process.Signal(syscall.SIGQUIT)
	<-s.done
	return err
}

// Stop ends the server and removes its directory.
func (s *Server) Stop() error {
	select {
	case <-s.done:
	default:
		if err := s.Kill(); err != nil {
			return err
		}
	}
	return s.removeDir()
}

// Command returns a command for a program of Postgres, or for another program if name is an absolute path. The command
// runs as the same user as the server.
func (s *Server) Command(name string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.bin, name)
	}
	cmd := exec.Command(name, args...) //nolint:gosec // tests choose the program
	cmd.Dir = s.Dir
	cmd.Env = []string{"LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(), Setpgid: true} // a Ctrl-C must end only the tests
	return cmd
}

// credential returns the user that the server runs as; nil means this user. If this user is root, the server runs as
// postgres or nobody, because Postgres refuses to run as root.
func credential() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// findBin returns the directory with the programs of the newest installed Postgres; "" if Postgres is not installed.
func findBin() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		version := func(path string) int {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
			return n
		}
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	return ""
}
