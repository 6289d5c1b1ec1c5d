// Package encoded lets many calls share the encoding of a response. A service that gives the same response many times
// puts the common fields into a Part, which is encoded only once in each format. A face that can send such responses puts
// a Receiver into the context of the call, and the service calls Respond.
//
// Package rpc provides the responses, and the faces send them. This package must never decide who may share a response:
// the service does.
package encoded
