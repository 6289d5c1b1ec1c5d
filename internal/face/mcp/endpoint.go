package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc/metadata"

	"fleet/internal/face/mcp/tool"
	"fleet/internal/face/wire"
)

// endpoint serves one toolset over streamable HTTP. mcp-go interprets the messages. The endpoint limits what it reads,
// checks the sessions, and sends the progress.
type endpoint struct {
	next     http.Handler
	sessions sessions
	tasks    tasks
	config   Config
}

// maxUnknownBody is the largest message that is read from an unknown caller, in bytes. Such a caller may initialize and list
// the tools. The same limit applies to a caller who has sent too many messages.
const maxUnknownBody = 64 << 10

func newEndpoint(s *server.MCPServer, sessions sessions, t tasks, c Config) *endpoint {
	return &endpoint{
		next: server.NewStreamableHTTPServer(s,
			server.WithStateLess(true),                  // the endpoint checks the sessions
			server.WithDisableStreaming(true),           // the server sends nothing without a request
			server.WithDisableLocalhostProtection(true), // inbound.Guard protects, and knows the configured hosts
			server.WithStreamableHTTPLogger(c.Log),
		),
		sessions: sessions, tasks: t, config: c,
	}
}

// ServeHTTP answers the message of a POST, and refuses other HTTP methods.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		e.post(w, r)
	case http.MethodDelete:
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, mcp.INVALID_REQUEST, "the server keeps no sessions, so there is nothing to end: stop using the session's id")
	default:
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, mcp.INVALID_REQUEST, "send messages by POST, as streamable HTTP does: there is no stream to GET, because each POST is answered by a stream of its own. "+
			"If this client uses the older transport HTTP+SSE (often called sse), set its transport to streamable HTTP (often called http)")
	}
}

// readBody returns the body. It does not wait for a body whose declared length is too large.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return nil, &http.MaxBytesError{Limit: most}
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, most))
}

// readMessage returns the message of a request and its bytes. If the message cannot be processed, readMessage answers the request and
// returns false.
func (e *endpoint) readMessage(w http.ResponseWriter, r *http.Request, identifyErr, limitErr error) (m envelope, body []byte, ok bool) {
	maxBody := e.config.MaxBody
	if identifyErr != nil || limitErr != nil {
		maxBody = min(maxBody, maxUnknownBody)
	}
	body, err := readBody(w, r, maxBody)
	tooLarge, isTooLarge := errors.AsType[*http.MaxBytesError](err)
	if isTooLarge {
		w.Header().Set("Connection", "close")
	}
	switch {
	case isTooLarge && identifyErr != nil:
		wire.WriteError(w, identifyErr)
	case isTooLarge && limitErr != nil:
		refuseLimited(w, nil, limitErr)
	case isTooLarge:
		refuse(w, http.StatusRequestEntityTooLarge, mcp.INVALID_REQUEST, fmt.Sprintf("the message is larger than %d bytes; send less", tooLarge.Limit))
	case err != nil:
		refuse(w, http.StatusBadRequest, mcp.PARSE_ERROR, "the request body ended early: send the message again")
	default:
		m, problem := readEnvelope(body)
		if problem == nil {
			return m, body, true
		}
		refuse(w, http.StatusBadRequest, problem.Code, problem.Message)
	}
	return m, nil, false
}

// post answers a message. It identifies the caller, applies limits, and checks the session. Then the tasks, or else mcp-go, answer.
func (e *endpoint) post(w http.ResponseWriter, r *http.Request) {
	ctx, caller, identifyErr := e.config.Identify(r.Context(), r.Header.Values("Authorization"))
	if e.config.Challenge != nil && wire.HTTPStatus(identifyErr) == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", e.config.Challenge(r))
		wire.WriteError(w, identifyErr)
		return
	}
	limitErr := e.config.CheckLimits(ctx)
	m, body, ok := e.readMessage(w, r, identifyErr, limitErr)
	if !ok {
		return
	}
	if limitErr != nil && m.Method != string(mcp.MethodToolsCall) { // a call of a tool reports the error in its result, which models read
		refuseLimited(w, m.ID, limitErr)
		return
	}
	out := &responseWriter{w: w, timeout: e.config.WriteTimeout, releaseSlot: func() {}}
	if m.needsSlot() {
		var err error
		if out.releaseSlot, err = e.config.TakeSlot(ctx); err != nil {
			refuseLimited(w, m.ID, err)
			return
		}
	}
	defer out.finish()
	body, out.exact = replaceInexact(body, m)
	header := r.Header.Clone()
	if m.Method == string(mcp.MethodInitialize) { // its revision is negotiated in the message
		header.Del(mcp.HeaderProtocolVersion)
	}
	if modern := mcp.IsModernProtocol(header.Get(mcp.HeaderProtocolVersion)) || m.isModern(); !modern {
		id := header.Get(server.HeaderKeySessionID)
		switch {
		case m.Method == string(mcp.MethodInitialize):
			header.Del(server.HeaderKeySessionID)
			if identifyErr == nil { // unknown callers need no session
				out.newSession = func() string { return e.sessions.newID(caller) }
			}
		case id != "" && !e.sessions.verify(caller, id):
			refuse(w, http.StatusNotFound, codeSessionNotFound, "this session is unknown; initialize a new one")
			return
		}
	} else {
		header.Del(server.HeaderKeySessionID)
	}
	if m.Method == methodCancelled && header.Get(server.HeaderKeySessionID) == "" {
		// Without a session it is unknown who sent the request that is to be cancelled. A client without a session
		// closes the connection instead.
		w.WriteHeader(http.StatusAccepted)
		return
	}
	ctx = withCallMetadata(ctx, header.Get("Authorization"), m.traceMetadata(header)...)
	switch {
	case m.isTaskMethod():
		e.answerTask(ctx, w, r, m)
	case m.subscribes():
		e.answerSubscription(ctx, out, r, m)
	default:
		e.forward(ctx, out, r, m, header, body)
	}
}

// forward lets mcp-go answer the message.
func (e *endpoint) forward(ctx context.Context, out *responseWriter, r *http.Request, m envelope, header http.Header, body []byte) {
	ctx, unreported := withUnreportedTask(ctx)
	ctx, out.refusal = withRefusal(ctx)
	out.id = m.ID
	ctx, out.result = tool.WithDeferredResult(tool.WithMaxSilence(tool.WithMaxResult(ctx, e.config.MaxResult), e.config.MaxSilence))
	if strings.Contains(header.Get("Accept"), "text/event-stream") {
		ctx = tool.WithNotify(ctx, out.notify)
	}
	r = r.WithContext(ctx)
	r.Header, r.Body, r.ContentLength = header, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	e.next.ServeHTTP(out, r)
	if ctx.Err() != nil {
		e.tasks.abandon(ctx, unreported)
	}
}

// answerSubscription notifies a client of changes to the resources that it subscribes to, in a stream that ends with the answer.
func (e *endpoint) answerSubscription(ctx context.Context, out *responseWriter, r *http.Request, m envelope) {
	mismatch := checkHeaders(r.Header, m)
	if mismatch == nil && !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		mismatch = &rpcError{Code: mcp.INVALID_REQUEST, Message: "accept text/event-stream, in which notifications are sent"}
	}
	if mismatch != nil {
		writeResponse(out, http.StatusBadRequest, mismatch.response(m.ID))
		return
	}
	out.Header().Set("Content-Type", "application/json") // until there is a stream
	_, _ = out.Write(e.tasks.listen(ctx, m, out.notify)) // the client may have disconnected
}

// answerTask answers a request of the extension for tasks.
func (e *endpoint) answerTask(ctx context.Context, w http.ResponseWriter, r *http.Request, m envelope) {
	if mismatch := checkHeaders(r.Header, m); mismatch != nil {
		writeResponse(w, http.StatusBadRequest, mismatch.response(m.ID))
		return
	}
	response, httpStatus := e.tasks.respond(ctx, m)
	writeResponse(w, httpStatus, response)
}

// withCallMetadata returns a context whose calls are marked as MCP calls and carry the caller's authorization and other
// metadata. An authorization that metadata cannot hold cannot be a valid token, so it is left out.
func withCallMetadata(ctx context.Context, authorization string, metadataPairs ...string) context.Context {
	pairs := append([]string{"fleet-face", "mcp"}, metadataPairs...)
	if authorization != "" && isPrintable(authorization) {
		pairs = append(pairs, "authorization", authorization)
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// isPrintable reports whether the value has only printable ASCII characters, so that metadata can hold it.
func isPrintable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// refuse answers with a JSON-RPC error.
func refuse(w http.ResponseWriter, httpStatus, code int, message string) {
	writeResponse(w, httpStatus, (&rpcError{Code: code, Message: message}).response(nil))
}

// refuseLimited answers the message with err, which says that a limit of the server is reached. The data of the JSON-RPC error is
// Fleet's error object.
func refuseLimited(w http.ResponseWriter, id json.RawMessage, err error) {
	wire.SetRetryAfter(w.Header(), err)
	object := wire.ErrorOf(err)
	writeResponse(w, wire.HTTPStatus(err), (&rpcError{codeLimitReached, object.Message, object}).response(id))
}

// writeResponse answers with a JSON-RPC response.
func writeResponse(w http.ResponseWriter, httpStatus int, response []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(httpStatus)
	_, _ = w.Write(append(response, '\n')) // the client may have disconnected
}
