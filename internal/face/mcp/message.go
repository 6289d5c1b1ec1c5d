package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc/status"

	"fleet/internal/face/wire"
)

// sessionNotFound is the code of JSON-RPC with which servers answer to a session that they do not know.
const sessionNotFound = -32001

// envelope is what has to be known of a message before mcp-go reads it.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta      *mcp.Meta       `json:"_meta"`
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
	// Result and Error are those of a response, which a client sends to what the server asks.
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// isResponse reports whether the message answers a request of the server.
func (e envelope) isResponse() bool {
	return e.Method == "" && len(e.ID) > 0 && (len(e.Result) > 0 || len(e.Error) > 0)
}

// isModern reports whether the message is of a revision of the protocol without sessions.
func (e envelope) isModern() bool { return mcp.IsModernProtocol(e.Params.Meta.ProtocolVersion()) }

// open reads the envelope of a message. A message that nothing should look into any further is answered with the
// error of JSON-RPC that is returned.
func open(message []byte) (envelope, *rpcError) {
	if err := wire.Check(message); err != nil {
		return envelope{}, &rpcError{Code: mcp.PARSE_ERROR, Message: status.Convert(err).Message()}
	}
	if !json.Valid(message) {
		return envelope{}, &rpcError{Code: mcp.PARSE_ERROR, Message: "The message is not valid JSON."}
	}
	var e envelope
	switch first := bytes.TrimSpace(message)[0]; first {
	case '{':
		// A member of the wrong type is mcp-go's to refuse, with the id of the request if that could be read.
		_ = json.Unmarshal(message, &e)
		return e, nil
	case '[':
		return e, &rpcError{Code: mcp.INVALID_REQUEST, Message: "Batches are not supported; send each message by itself."}
	}
	return e, &rpcError{Code: mcp.INVALID_REQUEST, Message: "The message must be a JSON object."}
}

// rpcError is an error of the protocol.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// response is the error as the answer to the request of the id, or to none.
func (e *rpcError) response(id json.RawMessage) []byte {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	b, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *rpcError       `json:"error"`
	}{mcp.JSONRPC_VERSION, id, e})
	if err != nil { // no id that was read from valid JSON
		return e.response(nil)
	}
	return b
}

const cancelled = "notifications/cancelled"
