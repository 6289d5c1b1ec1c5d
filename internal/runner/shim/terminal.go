package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// TerminalSize is the first size of the pseudo-terminal of a run whose program a person uses. The output of such a program is not
// stored.
type TerminalSize struct {
	Columns uint16 `json:"columns"`
	Rows    uint16 `json:"rows"`
}

// attachTimeout is how long a program on a terminal waits until a person attaches.
const attachTimeout = 30 * time.Second

// lastOutputTimeout is how long the last output of an ended program may take to reach the person.
const lastOutputTimeout = time.Second

// ErrNoTerminal means that the run has no terminal, or that somebody has already used it.
var ErrNoTerminal = errors.New("the run has no terminal that is free")

// terminalInput is a message from a person's terminal to the shim, as a JSON object. In the other direction, the shim sends
// the output of the program as plain bytes.
type terminalInput struct {
	Input   []byte `json:"input,omitempty"`
	Columns uint16 `json:"columns,omitempty"` // the new size; 0 if it has not changed
	Rows    uint16 `json:"rows,omitempty"`
}

// terminal connects the child's pseudo-terminal with one client. After the client has disconnected, the terminal cannot be used
// again, and the supervisor ends the run.
type terminal struct {
	pty          *os.File
	disconnected chan struct{} // closed when nobody uses the terminal any more
	disconnect   func()        // closes disconnected
	timer        *time.Timer   // ends the wait for a client
	drained      chan struct{} // closed when all output was sent

	mu    sync.Mutex
	conn  net.Conn
	taken bool // a client has reserved the terminal, or no client can reserve it any more
}

// newTerminal opens a pseudo-terminal. The second result is the child's side of it.
func newTerminal(size TerminalSize) (*terminal, *os.File, error) {
	blockingPTY, childSide, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = blockingPTY.Close() }()
	// This file blocks, so it would have no deadlines, and Close would not end a Read.
	fd, err := unix.FcntlInt(blockingPTY.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, nil, errors.Join(err, childSide.Close())
	}
	t := &terminal{pty: os.NewFile(uintptr(fd), blockingPTY.Name()), disconnected: make(chan struct{}), drained: make(chan struct{})}
	t.disconnect = sync.OnceFunc(func() { close(t.disconnected) })
	t.timer = time.AfterFunc(attachTimeout, func() {
		if t.reserve(nil) {
			t.disconnect()
		}
	})
	t.resize(size.Columns, size.Rows)
	return t, childSide, nil
}

func (t *terminal) resize(columns, rows uint16) {
	if conn, err := t.pty.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) {
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
		})
	}
}

// reserve reserves the terminal for the client. It returns false if the terminal was taken before.
func (t *terminal) reserve(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		return false
	}
	t.taken, t.conn = true, conn
	return true
}

// serve passes output to the client, and input from it, until the client disconnects or close is called. It continues after the
// child has closed the terminal, because then the child usually ends by itself.
func (t *terminal) serve(conn net.Conn, from *json.Decoder) {
	defer t.disconnect()
	go func() {
		defer close(t.drained)
		_, _ = io.Copy(conn, struct{ io.Reader }{t.pty}) // not with sendfile, which does not wait for a terminal
	}()
	for {
		var k terminalInput
		if err := from.Decode(&k); err != nil {
			return
		}
		if k.Columns > 0 && k.Rows > 0 {
			t.resize(k.Columns, k.Rows)
		}
		if len(k.Input) > 0 {
			_ = t.pty.SetWriteDeadline(time.Now().Add(messageTimeout)) // input that the child does not read is lost
			_, _ = t.pty.Write(k.Input)
		}
	}
}

// close sends the rest of the output and closes the terminal. It must be called after the end of the child.
func (t *terminal) close() {
	t.timer.Stop()
	t.mu.Lock()
	conn := t.conn
	t.taken = true
	t.mu.Unlock()
	if conn != nil {
		_ = conn.SetWriteDeadline(time.Now().Add(lastOutputTimeout))
		select {
		case <-t.drained:
		case <-time.After(lastOutputTimeout):
		}
		_ = conn.Close()
	}
	_ = t.pty.Close()
}

// attach connects a client with the terminal.
func (c *control) attach(conn net.Conn, from *json.Decoder) {
	if c.terminal == nil || !c.terminal.reserve(conn) {
		_ = json.NewEncoder(conn).Encode(reply{Error: replyNotAccepted})
		return
	}
	_ = json.NewEncoder(conn).Encode(reply{})
	c.terminal.serve(conn, from)
}

// TerminalConn is the connection of a person's terminal with a run. Read returns what the program writes, and io.EOF after the end of
// the program.
type TerminalConn struct {
	conn net.Conn
	from *bufio.Reader
	to   *json.Encoder
}

// Read implements io.Reader.
func (t *TerminalConn) Read(p []byte) (int, error) { return t.from.Read(p) }

// Send sends input to the program, and the new size of the terminal unless columns or rows is 0.
func (t *TerminalConn) Send(input []byte, columns, rows uint16) error {
	return t.to.Encode(terminalInput{Input: input, Columns: columns, Rows: rows})
}

// Close disconnects the terminal. The run ends if its program has not ended.
func (t *TerminalConn) Close() error { return t.conn.Close() }
