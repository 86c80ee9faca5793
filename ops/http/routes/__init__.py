"""The endpoints, a module for each subject; app.ROUTERS names those that are served."""
