"""What each kind of database needs beside SQLAlchemy: waits with a limit, and a watch over SQLite's file."""
