package shim

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/mailbox"
	"fleet/internal/runner/question"
)

// FuzzModelRequests checks that the output that is passed on does not depend on how the program's output is split.
func FuzzModelRequests(f *testing.F) {
	f.Add([]byte("{\"type\":\"stream_event\",\"event\":{\"type\":\"message_start\"}}\ntext\n{\"type\":\"s"), 3)
	f.Add([]byte("{\"type\":\"system\",\"subtype\":\"status\",\"status\":1}\n\n\x00"), 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		var whole, split bytes.Buffer
		r := newModelRequests(&whole)
		_, err := r.Write(data)
		require.NoError(t, err)
		r.flush()
		r = newModelRequests(&split)
		for rest := data; len(rest) > 0; {
			n := min(max(size, 1), len(rest))
			_, err := r.Write(rest[:n])
			require.NoError(t, err)
			rest = rest[n:]
		}
		r.flush()
		require.Equal(t, whole.String(), split.String())
	})
}

// FuzzShownInput checks that shownInput returns a valid object or nil for any input of a tool.
func FuzzShownInput(f *testing.F) {
	f.Add([]byte(`{"command":"ls","n":1,"a":{"b":null}}`))
	f.Add([]byte(`{"\u0000":"\ud800","a":"` + string(bytes.Repeat([]byte("x"), maxValue+1)) + `"}`))
	f.Add([]byte(`[1]`))
	f.Fuzz(func(t *testing.T, input []byte) {
		got := shownInput(input)
		if got == nil {
			return
		}
		require.True(t, utf8.Valid(got))
		require.NoError(t, json.Unmarshal(got, &map[string]any{}))
	})
}

// fixedConn is a connection that delivers one request and keeps the reply.
type fixedConn struct {
	net.Conn
	in  bytes.Reader
	out bytes.Buffer
}

func (c *fixedConn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *fixedConn) Close() error                { return nil }
func (c *fixedConn) Write(b []byte) (int, error) { c.out.Write(b); return 0, io.ErrClosedPipe } // so that a watch ends

// FuzzControlRequest checks that a request on the control socket gets at most one final reply, and that the child gets at most
// one message. It also checks that the journal and the child have the same answer to a question.
func FuzzControlRequest(f *testing.F) {
	for _, o := range []string{
		`{"op":"message","id":"m1","text":"a\nb"}`, `{"op":"message","text":"\ud800","id":"a\nb"}`, `{"op":"answer","id":"1","text":"allow","by":"alice"}`,
		`{"op":"answer","id":"1","text":"yes","message":"\u0000"}`, `{"op":"interrupt","kill":true,"linger":-1}`, `{"op":"watch"}`, `{"op":1}`, `{`,
	} {
		f.Add([]byte(o))
	}
	ended := make(chan struct{})
	close(ended)
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Chdir(t.TempDir())
		ours, fd, err := mailbox.Pair()
		require.NoError(t, err)
		child, messageCount := mailbox.Open(fd), make(chan int)
		go func() {
			n := 0
			for {
				select {
				case m := <-child.Messages():
					n++
					child.Ack(m.ID)
				case <-child.Closed():
					messageCount <- n
					return
				}
			}
		}()
		q, err := newQuestions(QuestionConfig{Timeout: time.Hour}, ".", func() {})
		require.NoError(t, err)
		go q.serve()
		q.idsByName["n"] = "1"
		q.open["1"] = &openQuestion{name: "n", kind: question.KindPermission, timer: time.AfterFunc(time.Hour, func() {})}
		c := &control{done: ended, mailbox: mailbox.NewSender(ours, func(string) {}), watchers: map[chan struct{}]struct{}{}, questions: q}
		conn := &fixedConn{}
		conn.in.Reset(data)
		c.handle(conn)
		q.finish()

		c.finish()
		require.LessOrEqual(t, <-messageCount, 1)
		child.Close()
		if conn.out.Len() > 1 { // a watch gets a byte
			replies := 0
			for line := range bytes.Lines(conn.out.Bytes()) {
				var re reply
				require.NoError(t, json.Unmarshal(line, &re), "%q", line)
				if !re.Accepted {
					replies++
				}
			}
			require.LessOrEqual(t, replies, 1)
		}
		journal, err := os.ReadFile(question.Journal)
		require.NoError(t, err)
		var record question.Record
		require.NoError(t, json.Unmarshal(journal, &record), "%q", journal)
		b, err := os.ReadFile(filepath.Join(question.AnswersDir, "n"))
		if record.Status != question.Answered {
			require.Equal(t, question.Withdrawn, record.Status)
			require.ErrorIs(t, err, os.ErrNotExist)
			return
		}
		require.NoError(t, err)
		var answer question.Answer
		require.NoError(t, json.Unmarshal(b, &answer))
		require.Contains(t, []string{question.Allow, question.Deny}, answer.Answer)
		require.Equal(t, record.Answer, answer.Answer)
	})
}
