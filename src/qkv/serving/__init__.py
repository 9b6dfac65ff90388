"""`qkv serve`: one HTTP process in front of one process that holds the models.

    client ─► guard (key, size, queue) ─► route (schema) ─► frame ─┐   HTTP process: app.py, guard.py, connection.py
    client ◄─ answer ◄─────────────────────────────────── frame ◄─┤   supervisor.py starts the other one again
                                                                   │
              models, batches by token budget, continuous batching ┘   compute process: compute.py, jobs.py, verbs.py

Parsing never waits for a model, and nothing that comes from the network is unpickled: frames are JSON and bytes.
"""
