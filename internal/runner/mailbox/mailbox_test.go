package mailbox

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newPair returns a connected Sender and Receiver, and a function that returns the ids with which the Sender has called onAck.
func newPair(t *testing.T) (*Sender, *Receiver, func() []string) {
	t.Helper()
	ours, fd, err := Pair()
	require.NoError(t, err)
	var mu sync.Mutex
	var ackedIDs []string
	s := NewSender(ours, func(id string) {
		mu.Lock()
		defer mu.Unlock()
		ackedIDs = append(ackedIDs, id)
	})
	r := Open(fd)
	t.Cleanup(func() {
		s.Close()
		r.Close()
	})
	return s, r, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), ackedIDs...)
	}
}

func TestMessageIsDeliveredWhenItIsTaken(t *testing.T) {
	t.Parallel()
	s, r, ackedIDs := newPair(t)
	sent := make(chan error, 2)
	for range 2 { // the second call repeats the first
		go func() { sent <- s.Send(Message{"m1", "hello\nyou"}) }()
	}
	require.Equal(t, Message{"m1", "hello\nyou"}, <-r.Messages())
	require.Empty(t, ackedIDs())
	r.Ack("another one")
	r.Ack("m1")
	require.NoError(t, <-sent)
	require.NoError(t, <-sent)
	r.Ack("m1")
	_, more := r.Next()
	require.False(t, more, "the repeated message must arrive once")
	require.Equal(t, []string{"m1"}, ackedIDs())
	require.NoError(t, s.Send(Message{"m1", "hello\nyou"}), "a message that was delivered stays delivered")
	require.ErrorIs(t, s.Send(Message{"m2", "late"}), ErrClosed)
}

// TestNoMessageIsLostAtTheEnd checks that each message is received, or its sender gets ErrClosed.
func TestNoMessageIsLostAtTheEnd(t *testing.T) {
	t.Parallel()
	for range 50 {
		s, r, _ := newPair(t)
		const senders = 8
		refused := make(chan bool, senders)
		for i := range senders {
			go func() {
				err := s.Send(Message{fmt.Sprint(i), "text"})
				if err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				refused <- err != nil
			}()
		}
		settled := 0 // messages that were received or refused
		for m, more := r.Next(); more; m, more = r.Next() {
			settled++
			r.Ack(m.ID)
		}
		for range senders {
			if <-refused {
				settled++
			}
		}
		require.Equal(t, senders, settled)
	}
}

func TestMessageThatNobodyTakes(t *testing.T) {
	t.Parallel()
	s, r, ackedIDs := newPair(t)
	sent := make(chan error, 1)
	go func() { sent <- s.Send(Message{"m1", "hello"}) }()
	<-r.Messages()
	r.Close()
	require.ErrorIs(t, <-sent, ErrClosed)
	require.Empty(t, ackedIDs())
}

// TestClientThatDoesNotRead checks that writing to a client that does not read fails in a limited time.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	ours, fd, err := Pair()
	require.NoError(t, err)
	defer func() { _ = syscall.Close(fd) }()
	s := NewSender(ours, func(string) {})
	defer s.Close()
	began := time.Now()
	var sendErr error
	for i := 0; sendErr == nil && i < 100; i++ {
		s.mu.Lock()
		sendErr = s.write(senderLine{Message: Message{fmt.Sprint(i), string(make([]byte, 64<<10))}})
		s.mu.Unlock()
	}
	require.True(t, errors.Is(sendErr, ErrNotRead) || errors.Is(sendErr, ErrClosed), "%v", sendErr) // ErrClosed after an incomplete line
	require.Less(t, time.Since(began), 10*writeTimeout)
}

// TestNoMailbox checks that a Receiver without a socket gets no message and ignores calls.
func TestNoMailbox(t *testing.T) {
	t.Parallel()
	r := Open(0)
	_, more := r.Next()
	require.False(t, more)
	r.Ack("m")
	r.Close()
}

// FuzzReceipts checks that Send returns for any receipts, and that a message is acknowledged at most once.
func FuzzReceipts(f *testing.F) {
	f.Add([]byte(`{"taken":"m1"}` + "\n" + `{"done":true,"read":1}` + "\n"))
	f.Add([]byte("\n{\n{}\n"))
	f.Fuzz(func(t *testing.T, receipts []byte) {
		ours, fd, err := Pair()
		require.NoError(t, err)
		clientConn := os.NewFile(uintptr(fd), "mailbox of the client")
		ackCount := 0
		s := NewSender(ours, func(id string) {
			require.Equal(t, "m1", id)
			ackCount++
		})
		go func() {
			_, _ = clientConn.Write(receipts)
			_ = clientConn.Close()
		}()
		err = s.Send(Message{"m1", "hello"})
		s.Close()
		require.True(t, err == nil || errors.Is(err, ErrClosed) || errors.Is(err, os.ErrClosed), err)
		require.LessOrEqual(t, ackCount, 1)
	})
}
