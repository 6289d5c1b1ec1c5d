package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc/status"

	"fleet/internal/face/wire"
)

// codeLimitReached is the JSON-RPC code for a message that exceeds a limit of the server, for example because its caller has
// sent too many messages. Servers may choose codes from -32000 to -32099.
const codeLimitReached = -32029

// codeSessionNotFound is the JSON-RPC code that servers return for an unknown session.
const codeSessionNotFound = -32001

// envelope holds the parts of a message that are needed before mcp-go reads it.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta      meta            `json:"_meta"`
		RequestID json.RawMessage `json:"requestId"`
		// Notifications selects the resources that a client subscribes to.
		Notifications mcp.SubscriptionFilter `json:"notifications"`
		// TaskID and InputResponses are parameters of the methods of the extension for tasks.
		TaskID         string          `json:"taskId"`
		InputResponses json.RawMessage `json:"inputResponses"`
	} `json:"params"`
	// Result and Error are set in a client's response to a request of the server.
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// isResponse reports whether the message answers a request of the server.
func (e envelope) isResponse() bool {
	return e.Method == "" && len(e.ID) > 0 && (len(e.Result) > 0 || len(e.Error) > 0)
}

// needsSlot reports whether the MCP server itself does the work for the message, for example lists the tools. Calls of tools
// and requests for a prompt or for resources do not need a slot here, because they become calls of the API, which wait for a
// slot there.
func (e envelope) needsSlot() bool {
	switch mcp.MCPMethod(e.Method) {
	case mcp.MethodToolsCall, mcp.MethodPing, mcp.MethodPromptsGet, mcp.MethodResourcesList, mcp.MethodResourcesRead:
		return false
	}
	return len(e.ID) > 0 && !e.isTaskMethod() && !e.subscribes()
}

// isModern reports whether the message uses a protocol revision without sessions.
func (e envelope) isModern() bool { return mcp.IsModernProtocol(e.Params.Meta.ProtocolVersion()) }

// meta is the _meta of a message; empty if it has none.
type meta struct {
	*mcp.Meta
	token json.RawMessage // the progress token as the client has written it
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *meta) UnmarshalJSON(data []byte) error {
	var raw struct {
		Token json.RawMessage `json:"progressToken"`
	}
	err := json.Unmarshal(data, &m.Meta)
	_ = json.Unmarshal(data, &raw) // without a token, there is no progress
	m.token = raw.Token
	return err
}

// traceMetadata returns the W3C trace context of the message as metadata: from its _meta, else from the request's header, which
// may be nil.
func (e envelope) traceMetadata(header http.Header) (pairs []string) {
	get := header.Get
	if m := e.Params.Meta.Meta; m != nil && m.AdditionalFields["traceparent"] != nil {
		get = func(key string) string {
			s, _ := m.AdditionalFields[key].(string)
			return s
		}
	}
	for _, key := range []string{"traceparent", "tracestate"} {
		if value := get(key); value != "" && isPrintable(value) {
			pairs = append(pairs, key, value)
		}
	}
	return pairs
}

// readEnvelope reads the envelope of a message. If the message must not be processed any further, it returns the JSON-RPC error
// to answer with.
func readEnvelope(message []byte) (envelope, *rpcError) {
	if err := wire.Check(message); err != nil {
		return envelope{}, &rpcError{Code: mcp.PARSE_ERROR, Message: status.Convert(err).Message()}
	}
	var e envelope
	// A member of the wrong type is left to mcp-go, which refuses it in an answer with the request's id.
	if _, broken := errors.AsType[*json.SyntaxError](json.Unmarshal(message, &e)); broken {
		return envelope{}, &rpcError{Code: mcp.PARSE_ERROR, Message: "the message is not valid JSON"}
	}
	switch first := bytes.TrimSpace(message)[0]; first {
	case '{':
		return e, nil
	case '[':
		return e, &rpcError{Code: mcp.INVALID_REQUEST, Message: "batches are not supported; send each message by itself"}
	}
	return e, &rpcError{Code: mcp.INVALID_REQUEST, Message: "the message must be a JSON object"}
}

// rpcError is a JSON-RPC error.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// response returns the error as the response to the request with the id; nil means no id.
func (e *rpcError) response(id json.RawMessage) []byte {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	b, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *rpcError       `json:"error"`
	}{mcp.JSONRPC_VERSION, id, e})
	if err != nil { // an id that was not read from valid JSON
		return e.response(nil)
	}
	return b
}

// resultResponse returns the result as the response to the request with the id, and the HTTP status of the response.
func resultResponse(id json.RawMessage, result any) (response []byte, httpStatus int) {
	b, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{mcp.JSONRPC_VERSION, id, result})
	if err != nil {
		return (&rpcError{Code: mcp.INTERNAL_ERROR, Message: "the answer cannot be written as JSON"}).response(id), http.StatusInternalServerError
	}
	return b, http.StatusOK
}

const methodCancelled = "notifications/cancelled"
